#!/bin/sh
# k8s-longhorn.sh: makes a Fedora machine that is not in EC2 a storage worker:
# what Longhorn needs of its host, then k8s-worker.sh. The label and the taint
# come with the join configuration, from the profile of `host add`:
#
#   node: {labels: {node.longhorn.io/create-default-disk: "true"},
#          taints: [{key: node.longhorn.io/storage, effect: NoSchedule}]}
#
#   k8s-longhorn.sh [FOLDER]   as k8s-worker.sh, exit codes too

set -u
umask 022
LC_ALL=C
export LC_ALL

LABEL=node.longhorn.io/create-default-disk=true
PACKAGES='iscsi-initiator-utils nfs-utils cryptsetup device-mapper'

say() { printf 'k8s-longhorn: %s\n' "$*" >&2; }

# die CODE MESSAGE
die() {
	code=$1
	shift
	say "$@"
	exit "$code"
}

root=${DYNK8S_ROOT:-}

# beside NAME prints where a script is: beside this one, as in a clone or in
# /usr/local/sbin, where a cloud-init seed puts it.
beside() {
	for folder in "${0%/*}" "${0%/*}/.." "$root/usr/local/sbin"; do
		[ -x "$folder/$1" ] && printf '%s\n' "$folder/$1" && return
	done
	die 2 "$1 is neither beside this script nor in /usr/local/sbin"
}

# put FILE: makes standard input the file's content; true when that changed it.
put() {
	target=$root$1
	{ mkdir -p "${target%/*}" && cat >"$target.dynk8s-new"; } || die 1 "cannot write $target: is the disk full?"
	if cmp -s "$target.dynk8s-new" "$target"; then
		rm -f "$target.dynk8s-new"
		return 1
	fi
	mv -f "$target.dynk8s-new" "$target" || die 1 "cannot write $target: is the disk full?"
	say "wrote $1"
}

# check_profile: a storage worker without its label would join as a plain one,
# and Longhorn would not use its disks.
check_profile() {
	join_file=${1:-$root/etc/kubernetes/dynk8s}/join.yaml
	[ -e "$join_file" ] || return 0 # joined, or k8s-worker.sh says it
	grep -Eq "[=, :]$LABEL(,|\$)" "$join_file" ||
		die 2 "$join_file does not give the label $LABEL: add it to node.labels of the profile, and run host add again"
	! grep -q '^ *taints: \[\]$' "$join_file" ||
		say "the profile has no taint: other pods will be scheduled here, too"
}

packages() {
	extra=${DYNK8S_EXTRA_PACKAGES-$(sed -n 's/^DYNK8S_EXTRA_PACKAGES=//p' "$root/etc/dynk8s/node.env" 2>/dev/null)}
	DYNK8S_EXTRA_PACKAGES="$PACKAGES${extra:+ $extra}" "$setup" || exit
}

storage() {
	put /etc/modules-load.d/dynk8s-longhorn.conf <<-'END'
		dm_crypt
		iscsi_tcp
	END
	for module in dm_crypt iscsi_tcp; do
		modprobe "$module" || die 1 "the kernel has no module $module: reboot if a new kernel was installed"
	done
	put /etc/multipath/conf.d/dynk8s-longhorn.conf <<-'END' && reload_multipath
		# Longhorn's volumes have one path each; multipathd would take them away.
		blacklist {
		    device {
		        vendor "IET"
		        product "VIRTUAL-DISK"
		    }
		}
	END
	for verb in enable start; do
		if [ "$verb" = start ]; then state=is-active; else state=is-enabled; fi
		systemctl "$state" --quiet iscsid.service 2>/dev/null || {
			systemctl --quiet "$verb" iscsid.service || die 1 "systemctl $verb iscsid.service failed"
			say "$verb: iscsid"
		}
	done
}

reload_multipath() {
	systemctl is-active --quiet multipathd.service || return 0
	systemctl reload multipathd.service
}

main() {
	setup=$(beside dynk8s-node-setup) || exit
	worker=$(beside k8s-worker.sh) || exit
	check_profile "$@"
	packages
	storage
	"$worker" "$@"
}

main "$@"
