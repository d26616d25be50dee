"""The observer's page: read only, over HTTP, with the rights, limits and errors of its gRPC door.

listener    accepts connections, and answers each of their requests
exchange    what one request is answered: a file, a call as JSON, or a watch as events
calls       a call of the door: its context, its request from JSON, its answers as JSON
large       the turns of large answers
connection  the bytes of one connection, by TLS or in the clear
http        the head of a request, read strictly, and that of a response
files       the files of the page, from the folder `static`
"""
