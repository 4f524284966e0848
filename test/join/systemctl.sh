#!/bin/sh
# A systemctl that knows one unit, the kubelet, and runs it as kubeadm's drop-in
# for systemd does.
umask 077
pid=/run/dynk8s/kubelet.pid
stop() {
	[ ! -f "$pid" ] || kill "$(cat "$pid")" 2>/dev/null
	rm -f "$pid"
}
case "$1" in
start | restart)
	stop
	. /var/lib/kubelet/kubeadm-flags.env
	# shellcheck disable=SC2086 # several arguments in one variable, as in the drop-in
	kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
		--kubeconfig=/etc/kubernetes/kubelet.conf \
		--config=/var/lib/kubelet/config.yaml \
		$KUBELET_KUBEADM_ARGS >>"$KUBELET_LOG" 2>&1 </dev/null &
	echo $! >"$pid"
	;;
stop) stop ;;
esac
