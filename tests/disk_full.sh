# shellcheck shell=bash
prepare_disk_full() { :; }
disk_full() { fail "not there"; }
