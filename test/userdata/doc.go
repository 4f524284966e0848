// Package userdata tests the scripts of the folder userdata: what an instance or
// a host runs at its first boot. The scripts run for real, under three shells,
// with the real curl against a small server that answers as it is told; only the
// programs that would change the machine are stand-ins.
package userdata
