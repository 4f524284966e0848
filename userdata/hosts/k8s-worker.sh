#!/bin/sh
# k8s-worker.sh: makes a Fedora machine that is not in EC2 a worker of the
# cluster, with what `dynk8s-provisioner host add NAME` made for it. Run again,
# it goes on where it was interrupted; a node that has joined stays as it is.
#
#   k8s-worker.sh [FOLDER]
#     FOLDER   with discovery.conf and join.yaml; default /etc/kubernetes/dynk8s
#   exit       0 joined; 1 failed, try again; 2 files or settings are wrong

set -u
umask 077
LC_ALL=C
export LC_ALL

say() { printf 'k8s-worker: %s\n' "$*" >&2; }

# die CODE MESSAGE
die() {
	code=$1
	shift
	say "$@"
	exit "$code"
}

root=${DYNK8S_ROOT:-}
kubernetes=$root/etc/kubernetes
kubelet_conf=$kubernetes/kubelet.conf
bootstrap_conf=$kubernetes/bootstrap-kubelet.conf

# beside NAME prints where a script is: beside this one, as in a clone or in
# /usr/local/sbin, where a cloud-init seed puts it.
beside() {
	for folder in "${0%/*}" "${0%/*}/.." "$root/usr/local/sbin"; do
		[ -x "$folder/$1" ] && printf '%s\n' "$folder/$1" && return
	done
	die 2 "$1 is neither beside this script nor in /usr/local/sbin"
}

# files finds the two files and what the one says of the other's place.
files() {
	folder=${1:-$kubernetes/dynk8s}
	join_file=$folder/join.yaml
	given_discovery=$folder/discovery.conf
	joined && return
	for file in "$join_file" "$given_discovery"; do
		[ -s "$file" ] || die 2 "$file is not there: run dynk8s-provisioner host add NAME --output DIR, and carry both files here"
	done
	grep -q '^kind: JoinConfiguration$' "$join_file" || die 2 "$join_file is no join configuration"
	grep -q '^kind: Config$' "$given_discovery" || die 2 "$given_discovery is no kubeconfig"
	named=$(sed -n "s/^ *kubeConfigPath: *[\"']\{0,1\}\([^\"']*\)[\"']\{0,1\} *$/\1/p" "$join_file")
	case $named in
	/*) discovery_file=$root$named ;;
	*) die 2 "$join_file names no discovery file" ;;
	esac
	chmod 600 "$join_file" "$given_discovery"
}

# place puts the discovery kubeconfig where kubeadm looks for it.
place() {
	{ mkdir -p "${discovery_file%/*}" && cp "$given_discovery" "$discovery_file.new" && mv -f "$discovery_file.new" "$discovery_file"; } ||
		die 1 "cannot write $discovery_file: is the disk full?"
}

joined() { [ -s "$kubelet_conf" ]; }

# mask hides what looks like a bootstrap token.
mask() {
	set -- 's/[a-z0-9]\{6\}\.[a-z0-9]\{16\}/[bootstrap token]/g'
	sed -u p </dev/null >/dev/null 2>&1 && set -- -u "$@" # each line at once
	sed "$@"
}

# kubeadm_run ARGUMENT …: kubeadm's output goes to standard error, masked.
kubeadm_run() {
	kubeadm_exit=$({
		{
			kubeadm "$@" </dev/null 2>&1 3>&- 4>&- 9>&-
			echo $? >&3
		} | mask >&4 3>&- 9>&-
	} 3>&1)
	[ "$kubeadm_exit" = 0 ]
}

# clear_half_joined undoes what an interrupted join left, for kubeadm would not
# join over it. The kubelet, which may be about to finish the job, is stopped
# first, and a kubelet.conf that is there then is kept.
clear_half_joined() {
	[ -e "$bootstrap_conf" ] || [ -e "$kubelet_conf" ] || [ -e "$kubernetes/pki/ca.crt" ] || return 0
	systemctl stop kubelet.service
	if joined; then
		systemctl start kubelet.service
		return
	fi
	say "an earlier join was interrupted: kubeadm reset"
	kubeadm_run reset --force || die 1 "kubeadm reset failed, its output is above"
	rm -f "$kubelet_conf" "$bootstrap_conf"
}

# forget removes the secrets, which are of no use once this host has joined.
forget() {
	for file in "$kubernetes/dynk8s/join.yaml" "$kubernetes/dynk8s/discovery.conf" \
		"$join_file" "$given_discovery" "${discovery_file:-$given_discovery}" "$bootstrap_conf"; do
		[ ! -e "$file" ] || rm -f "$file"
	done
}

main() {
	[ $# -le 1 ] || die 2 "usage: k8s-worker.sh [FOLDER]"
	setup=$(beside dynk8s-node-setup) || exit
	mkdir -p "$root/run/dynk8s" || die 1 "cannot write in $root/run: is it full?"
	exec 9>"$root/run/dynk8s/join.lock"
	flock -n 9 || die 1 "another run is at work"
	exec 4>&2
	files "$@"
	joined || place
	"$setup" 9>&- || exit
	joined || clear_half_joined
	if joined; then
		forget
		die 0 "this host has joined: nothing to do"
	fi
	kubeadm_run join --config "$join_file" || die 1 "kubeadm join failed, its output is above; run this again once the reason is gone"
	joined || die 1 "kubeadm join left no kubelet.conf"
	forget
	say "joined"
}

main "$@"
