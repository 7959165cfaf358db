// Package fake is a driver without machines: an instance is a file. It is for tests and for a first look
// at Berth. Instances run no processes, so they have no helper. They have files if [MakeFiles] was called,
// see [Open].
//
// [New] opens a directory. The directory contains the whole state of the driver. Any number of processes
// can share it, and the state remains after they end:
//
//	instances/  one file per instance, named by its ID
//	ended/      the files of destroyed instances, so that no ID is ever used twice
//	calls.jsonl the log of all calls, see [Driver.Log]
//	faults.json faults for every process, see [SetFaults]
//	fired/      one file for each use of a fault that may happen a limited number of times
//	files/      the files of each instance, if the folder exists
//	tmp/        files being written
//
// No call takes a lock. Create claims its Key by linking a complete file to the Key's name. Destroy links
// that file into ended/. Only one process can succeed in each, and the second is final: an instance with a
// file in ended/ does not exist. If a process is killed between two steps, the others neither wait for it
// nor see a wrong state.
//
// Faults come in two kinds: rules of one [Driver] value ([Driver.On]) and faults shared by all
// processes ([SetFaults]). [Driver.Vanish], [Driver.Halt], [Driver.Become], [Driver.ForgetKey] and
// [Driver.Litter] change instances without a call, as a provider or its machines could.
package fake
