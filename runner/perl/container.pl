#!/usr/bin/perl
# Checks that a container is unchanged since before its first session, if the container itself is the sandbox
# (container-sandbox.ts). The runner, its only process, starts this program before the first session, and after each one
# with the argument "empty". The last session may have left anything that its user, the runner's own, may do.
#
# Prints the other processes and the state that a session could have changed besides files: the text after a session
# must equal the one before the first. Dies with the reason if a file cannot be removed, or if a file is writable
# outside of writable folders.
use strict;
use warnings;
use Config;

my ($architecture) = $Config{archname} =~ /^(x86_64|aarch64)/ or die "only x86_64 and aarch64 are known\n";
my ($LISTXATTR, $IOPRIO_GET) = $architecture eq 'x86_64' ? (194, 252) : (11, 31);
use constant { GETFLAGS => 0x80086601, O_DIRECTORY => 0200000, ENOTSUP => 95 };
# Kernel file systems, where the user owns only the entries of its own processes.
my %KERNEL = map { $_ => 1 } qw(proc sysfs cgroup cgroup2 devpts);

sub read_file { my ($path) = @_; open my $file, '<', $path or die "cannot read $path: $!\n"; local $/; return scalar <$file> // '' }

sub names_in {
    my ($path) = @_;
    opendir my $folder, $path or die "cannot list $path: $!\n";
    return sort grep { $_ ne '.' && $_ ne '..' } readdir $folder;
}

# Whether this user can write there, possibly after changing the mode.
sub is_ours { my ($path) = @_; my @stat = lstat $path or die "cannot see $path: $!\n"; return $stat[4] == $> || -w _ }

# Returns the mounts that are not read-only. Of several at one path, only the last one is visible.
sub writable_mounts {
    my %mounts;
    for (split /\n/, read_file('/proc/self/mountinfo')) {
        my ($path, $options, $type) = /^(?:\S+ ){4}(\S+) (\S+) .*?- (\S+)/ or die "cannot read the list of mounts\n";
        $path =~ s/\\(\d{3})/chr oct $1/ge;
        $mounts{$path} = $KERNEL{$type} || $options =~ /^ro\b/ ? 0 : 1;
    }
    die "the root file system is not read-only\n" if $mounts{'/'};
    return sort grep { $mounts{$_} } keys %mounts;
}

# Dies if a mount whose folder belongs to another user has anything writable below $path, except devices.
sub check_unwritable {
    my ($path, $device) = @_;
    my @stat = lstat $path or return;
    return if $stat[0] != $device || -l _ || -c _;
    die "$path can be written\n" if is_ours($path);
    lstat $path;
    if (-d _) { check_unwritable("$path/$_", $device) for -r _ ? names_in($path) : () }
}

# Returns every folder in which a session can leave something.
sub places {
    my @places;
    for my $path (writable_mounts()) {
        if (-d $path && is_ours($path)) { push @places, $path }
        else                            { check_unwritable($path, (lstat $path)[0]) }
    }
    return @places;
}

# Removes everything in the current folder, by relative names because a path may be too long.
sub empty_here {
    for my $name (names_in('.')) {
        lstat $name or die "cannot see a file: $!\n";
        if (-d _) {
            chmod 0700, $name;
            chdir $name or die "cannot enter a folder: $!\n";
            empty_here();
            chdir '..' or die "cannot leave a folder: $!\n";
            rmdir $name or die "cannot remove a folder: $!\n";
        }
        else { unlink $name or die "cannot remove a file: $!\n" }
    }
}

sub empty {
    my ($place) = @_;
    chdir $place or die "cannot enter $place: $!\n";
    empty_here();
    chdir '/';
    my @left = names_in($place);
    die "$place is not empty\n" if @left;
}

# Returns owner, mode, flags (chattr) and extended attributes, including access lists.
sub describe_place {
    my ($place) = @_;
    my @stat = stat $place or die "cannot see $place: $!\n";
    sysopen my $folder, $place, O_DIRECTORY or die "cannot open $place: $!\n";
    my $flags = pack 'Q', 0;
    my $has_flags = ioctl $folder, GETFLAGS, $flags;
    my $names = "\0" x 65536;
    my $length = syscall $LISTXATTR, $place, $names, length $names;
    die "cannot read the attributes of $place: $!\n" if $length < 0 && $! != ENOTSUP;
    $names = $length > 0 ? substr $names, 0, $length : '';
    return sprintf "%s %d %d %o %s %s", $place, @stat[ 4, 5, 2 ], $has_flags ? unpack 'L', $flags : '-', join ',', sort split /\0/, $names;
}

# Returns the limits and scheduling of a process, which other processes of its user may set.
sub describe_process {
    my ($pid) = @_;
    my %threads;
    for my $thread (names_in("/proc/$pid/task")) {
        my ($stat, $status) = map { read_file("/proc/$pid/task/$thread/$_") } qw(stat status);
        my @fields = split / /, $stat =~ s/.*\) //sr;
        my ($processors) = $status =~ /^Cpus_allowed:\s*(\S+)/m;
        # Priority, nice value, real-time priority and policy (proc(5)).
        $threads{ join ' ', @fields[ 15, 16, 37, 38 ], $processors, syscall $IOPRIO_GET, 1, 0 + $thread }++;
    }
    return read_file("/proc/$pid/limits"), (map { "thread $_" } sort keys %threads), 'oom ' . read_file("/proc/$pid/oom_score_adj");
}

no warnings 'recursion';
umask 022;
my $runner = getppid;
# Listed before anything is removed, because a process could restore it. Pid and start time identify a process
# (proc(5)).
my @processes = map { (eval { read_file("/proc/$_/stat") } // '') =~ /^(\d+ \(.*\)) (?:\S+ ){19}(\d+)/s ? "process $1 $2" : () }
    grep { /^\d+$/ && $_ != $runner && $_ != $$ } names_in('/proc');
my @places = places();
for my $place (@places) {
    # Only the owner can change the mode. Layers and sessions may have made folders read-only.
    chmod 0755, $place if (stat $place)[4] == $>;
    empty($place) if @ARGV;
}
my @queues = map { read_file("/proc/sysvipc/$_") =~ s/^.*\n//r } grep { -e "/proc/sysvipc/$_" } qw(msg sem shm);
print join "\n", @processes, (map { describe_place($_) } @places), 'queues ' . join('', @queues), describe_process($runner);
