-- +goose Up

-- A row of a turn's log says how far into the agent's output its events go, so that an event does not rewrite
-- its turn: seq, read_to and state of turns are where the log stood when that row was written. Rows are only
-- made of turns that are there, so that none is looked up for each.
create table turn_log_placed (
    turn    text not null,
    first   bigint not null,
    last    bigint not null,
    data    bytea not null,
    read_to bigint not null,
    state   text not null,
    primary key (turn, first)
);
insert into turn_log_placed (turn, first, last, data, read_to, state) select turn, first, last, data, 0, '' from turn_log;
drop table turn_log;
alter table turn_log_placed rename to turn_log;
alter table turns drop column log_bytes;
