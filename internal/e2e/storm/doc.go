// Package storm drives two gateways and two workers, as processes, before all chat platforms at once while everything
// goes wrong: processes and servers are killed or stand still, platforms and the model refuse, lose and repeat, the disk
// is full. It holds tests only.
//
// MIKAN_STORM sets how long it lasts, as a duration (default about a minute), MIKAN_SEED repeats what an earlier run
// drew, and MIKAN_KEEP keeps the directory with every process's log.
package storm
