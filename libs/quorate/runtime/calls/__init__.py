"""A gRPC server: its addresses and limits, the wrapper of every handler, many calls in one stream.

server              a gRPC server: health, reflection, graceful shutdown (draining), and a port for probes alone
wrapped_server      what it is made of: handlers that go through the door, addresses, limits
door                the wrapper of every RPC handler: limits, deadline, error to status, span
call_endings        how a call ends, so that nothing of it is kept
call_bounds         how long a call without a deadline may take, and its caller to take a part of the answer
admission           admission control: limits on concurrent calls and streams, by purpose and address
late_refusals       calls beyond a limit are refused a few at a time, so that thousands of them keep nobody waiting
health              the gRPC health service: startup, liveness, readiness
symbols             the descriptor pool for gRPC reflection
stream_requests     the requests of one stream that run at once, and their answers
transport_settings  the settings of all services for TLS, under Kafka's names
call_login          the login of a call whose metadata has a password or a token
call_settings       the settings of all services that limit concurrent calls
multiplexed_calls   many unary calls in the messages of one stream: the server
"""
