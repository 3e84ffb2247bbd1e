"""Records that are inserted, changed, duplicated and deleted by forms (spec: http §7.8).

fields       a value of a record <-> the field of a form; knows no requests
forms        the fields of one record, by the rights of the caller; what a form has sent
edit         changing a record; what is done when somebody else has changed it (`differences`)
create       a new record, empty or like another one
remove       deleting a record
choices      the records that a reference may lead to
actions      what of this is offered on the pages of tables and records
"""
