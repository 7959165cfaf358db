// Package fleet runs several real Berth servers on one host for tests. The servers are killed, stopped, paused and
// restarted under load, with faults between them and their database.
//
// [New] starts a [Fleet] of `berth serve` processes on PostgreSQL, or a single server on SQLite. The sandboxes are those
// of the fake driver, or real ones on this machine in which agents work. [Fleet.Kill], [Fleet.Stop], [Fleet.Pause],
// [Fleet.Start] and [Fleet.Roll] act on the replicas. [Fleet.Client] returns a client of one replica, and [Fleet.Any] a
// client of all running ones, as behind a load balancer. [Proxy] simulates a faulty network to the database.
//
// The results come from independent sources: [Creates] and [Doubles] read the driver's call log ([Fleet.Calls]),
// [Overlaps] reads the driver's record of instances ([Fleet.Lives]), and [Fleet.Unsettled] compares the servers'
// sandboxes with the driver's instances.
package fleet
