-- +goose Up

-- A conversation is prompts and answers in one sandbox and one session of an agent. What its messages
-- add up to is counted here, wherever the messages are. Money is in billionths of a dollar: sums are exact.
create table conversations (
    id                 text primary key,
    tenant             text not null,
    account            text not null,
    title              text not null,
    agent              text not null,
    template           text not null,
    sandbox            text not null,
    own_sandbox        boolean not null,
    is_default         boolean not null,
    session            text not null,
    session_turns      bigint not null,
    metadata           text not null,
    messages           bigint not null,
    input_tokens       bigint not null,
    output_tokens      bigint not null,
    cache_read_tokens  bigint not null,
    cache_write_tokens bigint not null,
    cost_nanos         bigint not null,
    extra              text not null,
    last_message       text not null,
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    deleted_at         timestamptz
);
create index conversations_list on conversations (tenant, created_at, id) where deleted_at is null;
create index conversations_sandbox on conversations (sandbox, created_at, id) where deleted_at is null;
create unique index conversations_default on conversations (sandbox) where is_default and deleted_at is null;

-- Messages, where the database keeps them. The body is the whole of it, as JSON.
create table messages (
    conversation text not null,
    id           text not null,
    tenant       text not null,
    body         text not null,
    primary key (conversation, id)
);

-- What was used on a day (UTC) of a model in a conversation. Conversations that are deleted stay counted.
create table usage_days (
    tenant             text not null,
    day                text not null,
    model              text not null,
    conversation       text not null,
    messages           bigint not null,
    input_tokens       bigint not null,
    output_tokens      bigint not null,
    cache_read_tokens  bigint not null,
    cache_write_tokens bigint not null,
    cost_nanos         bigint not null,
    primary key (tenant, day, model, conversation)
);

-- A turn is one prompt and what comes of it. A slot is one of the places that its sandbox has for turns
-- that run; without one it waits, or has ended. Epoch, seq, read_to, state and what follows belong to the
-- holder of the turn's lease.
create table turns (
    id            text primary key,
    tenant        text not null,
    conversation  text not null references conversations (id),
    sandbox       text not null,
    slot          bigint,
    status        text not null,
    message       text not null,
    reply         text not null,
    prompt        text not null,
    model         text not null,
    template      text not null,
    actor         text not null,
    cancel_at     timestamptz,
    cancel_reason text not null,
    epoch         bigint not null,
    session       text not null,
    resume        boolean not null,
    attempt       bigint not null,
    seq           bigint not null,
    read_to       bigint not null,
    state         text not null,
    log_bytes     bigint not null,
    outcome       text,
    version       text not null,
    warnings      text not null,
    done          text not null,
    created_at    timestamptz not null,
    started_at    timestamptz,
    finished_at   timestamptz
);
create unique index turns_running on turns (conversation) where slot is not null;
create unique index turns_slot on turns (sandbox, slot) where slot is not null;
create index turns_waiting on turns (sandbox, created_at, id) where finished_at is null and slot is null;
create index turns_open on turns (created_at, id) where finished_at is null;
create index turns_list on turns (conversation, created_at, id);
create index turns_finished on turns (finished_at) where finished_at is not null;

-- What a turn's readers see. A row is the events first to last, one JSON text per line.
create table turn_log (
    turn  text not null references turns (id),
    first bigint not null,
    last  bigint not null,
    data  bytea not null,
    primary key (turn, first)
);

-- Messages of the outbox that belong together are found by what they are about.
alter table outbox add column ref text not null default '';
create index outbox_ref on outbox (ref, created_at, id) where ref <> '';
