package config

import "time"

// Config is everything an operator can set. One that Load returned is
// complete and valid: defaults are filled in, and what can be derived from
// other settings has been.
//
// The yaml tags are the names in the file. Names of environment variables
// and the paths in errors are made from them.
type Config struct {
	AWS   AWS   `yaml:"aws"`
	Queue Queue `yaml:"queue"`
	// Profiles are tried in order; the first that matches an instance wins.
	Profiles     []Profile    `yaml:"profiles"`
	Kubernetes   Kubernetes   `yaml:"kubernetes"`
	Reconcile    Reconcile    `yaml:"reconcile"`
	Artifacts    Artifacts    `yaml:"artifacts"`
	Certificates Certificates `yaml:"certificates"`
	Operations   Operations   `yaml:"operations"`
	Log          Log          `yaml:"log"`
}

// AWS is about the account the instances run in.
type AWS struct {
	// Region is where instances are looked up, such as us-east-2. Empty in
	// the file means AWS_REGION, AWS_DEFAULT_REGION or the queue's region.
	Region string `yaml:"region"`
	// CredentialsDirectory is a folder with the files aws_access_key_id,
	// aws_secret_access_key and, if there is one, aws_session_token. Empty means
	// that credentials are found as the AWS SDK finds them.
	CredentialsDirectory string `yaml:"credentialsDirectory"`
}

// Queue is about the SQS queue the events arrive in.
type Queue struct {
	URL string `yaml:"url"`
	// Region is where the queue is. Empty in the file means the region in
	// the URL's host, else AWS.Region.
	Region string `yaml:"region"`
	// VisibilityTimeout is how long a received message stays hidden from
	// other receivers; whole seconds. It is extended while work goes on.
	VisibilityTimeout time.Duration `yaml:"visibilityTimeout"`
	// WaitTime is how long one receive waits for messages; whole seconds.
	WaitTime time.Duration `yaml:"waitTime"`
	// Concurrency is how many instances are worked on at once.
	Concurrency int `yaml:"concurrency"`
}

// Kubernetes is about the cluster the instances join.
type Kubernetes struct {
	// Kubeconfig is a path. Empty means the pod's own service account.
	Kubeconfig string `yaml:"kubeconfig"`
	// Namespace holds the WireGuard key Secrets. Empty in the file means the
	// pod's own.
	Namespace string `yaml:"namespace"`
	// QPS and Burst bound the requests to the API server, per second.
	QPS   float32 `yaml:"qps"`
	Burst int     `yaml:"burst"`
}

// Reconcile is about the pass that compares EC2 with the cluster.
type Reconcile struct {
	Interval time.Duration `yaml:"interval"`
	// TokenRenewalCutoff is the age, counted from the launch, up to which an
	// instance that has not joined has its bootstrap token renewed.
	TokenRenewalCutoff time.Duration `yaml:"tokenRenewalCutoff"`
	// GoneGrace is how long EC2 must keep saying that it does not know an
	// instance before that counts as gone.
	GoneGrace time.Duration `yaml:"goneGrace"`
}

// Certificates is about the certificates that Nodes ask the cluster for.
type Certificates struct {
	// Approve lets the program approve or deny the requests of instances that
	// join, and of their kubelets for serving certificates.
	Approve bool `yaml:"approve"`
	// Group is the group of bootstrap tokens whose requests the program decides
	// on. It must not be one whose requests are approved automatically.
	Group string `yaml:"group"`
}

// Operations is about health, readiness and metrics.
type Operations struct {
	// Address is host:port to listen on. It must never be exposed.
	Address string `yaml:"address"`
	// Pprof serves Go's profiles under /debug/pprof/.
	Pprof bool `yaml:"pprof"`
}
