// Package fleet runs real Berth servers for the experiments that one process cannot do: several
// replicas on one host, killed, stopped, paused and restarted under load, with faults between them and
// their database.
//
// [New] starts a [Fleet] of `berth serve` processes with the fake driver, on PostgreSQL or, one server
// only, on SQLite; or with real sandboxes on this machine, in which agents work.
// [Fleet.Kill], [Fleet.Stop], [Fleet.Pause], [Fleet.Start] and [Fleet.Roll] act on its replicas;
// [Fleet.Client] calls one of them and [Fleet.Any] whichever runs, as a client behind a load balancer does.
// [Proxy] is the faulty network in front of the database.
//
// What happened is read where nobody can embellish it: [Fleet.Creates] and [Fleet.Doubles] in the
// driver's call log, [Overlaps] in what the driver had and from when to when, [Fleet.Unsettled] by comparing the rows of the database with the driver's instances.
package fleet
