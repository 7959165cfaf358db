-- +goose Up

-- Tool calls under way over MCP, where several servers share the database: a notice that cancels one may reach
-- another server than the one that runs it. A row is renewed while its server runs the call.
create table tool_calls (
    id        text primary key,
    server    text not null, -- the process that runs it
    client    text not null, -- a digest of tenant, key and sandbox
    request   text not null, -- a digest of the request's id, which only its client knows to be unique
    cancelled boolean not null default false,
    seen_at   timestamptz not null
);
create index tool_calls_server on tool_calls (server);
create index tool_calls_request on tool_calls (client, request);
create index tool_calls_seen on tool_calls (seen_at);
