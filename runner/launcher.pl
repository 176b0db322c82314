#!/usr/bin/perl
# The launcher: one per platform process, outside all sandboxes. It forks sandboxes, watches their memory and kills them. A
# fork from here is much cheaper than a spawn from Node's large process, and needs no program that Debian lacks.
# Arguments: its scratch folder, which holds the host's socket, and as root the sources to stage.
use strict;
use warnings;

our ($SYS, $PIDFD_SEND_SIGNAL, $PIDFD_OPEN, $MOUNT_SETATTR);
BEGIN { require(__FILE__ =~ s{[^/]*$}{inside.pl}r) }    # A sandbox runs its init; its helpers are used here, too.

use constant {
    MS_RDONLY => 1, MS_NOSUID => 2, MS_NODEV => 4, MS_NOEXEC => 8, MS_REMOUNT => 32, MS_BIND => 4096, MS_REC => 16384,
    MS_SLAVE => 1 << 19, MNT_DETACH => 2,
    NEW_USER => 0x10000000, NEW_MOUNT => 0x00020000, NEW_OTHERS => 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x02000000,
    PR_CAPBSET_DROP => 24, O_PATH => 010000000, F_SETFD => 2, WATCH_INTERVAL_MS => 100,
};

sub milliseconds {
    my $time = "\0" x 16;
    syscall $SYS->{clock_gettime}, 1, $time;    # CLOCK_MONOTONIC
    my ($seconds, $nanoseconds) = unpack 'q2', $time;
    return $seconds * 1000 + int($nanoseconds / 1e6);
}

# --- building a sandbox ----------------------------------------------------------------------------------------------

sub touch { my ($path) = @_; open my $file, '>', $path or die "cannot create $path: $!\n" }

sub bind_mount {
    my ($source, $target) = @_;
    make_parents($target);
    if (-d $source) { mkdir $target, 0755 unless -d $target }
    else            { touch($target) unless -e $target }
    eval { sys('mount', $source, $target, 0, MS_BIND | MS_REC, 0); 1 } or die "cannot show $source at $target: $@";
}

# Recursive. Keeps existing flags, which an ordinary user's remount may not drop.
sub set_mount_flags {
    my ($path, $flags) = @_;
    sys($MOUNT_SETATTR, -100, $path, 0x8000, pack('Q4', $flags, 0, 0, 0), 32);
}

# Builds the file system from nothing and moves into it. $plan: a list of [operation, at, from] (host-runtime.ts).
sub build_root {
    my ($plan, $disk_bytes) = @_;
    sys('mount', 'none', '/', 0, MS_SLAVE | MS_REC, 0);
    # Mounted over /tmp because that always exists. After pivot_root, the mount covers nothing.
    sys('mount', 'sandbox', '/tmp', 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=755,size=1m');
    mkdir '/tmp/old', 0755;
    chdir '/tmp';
    sys('pivot_root', '.', 'old');
    chdir '/';

    mkdir '/rw', 0755;
    # A file with content takes at least a page, so the bytes run out before the inodes do. The inodes bound empty files.
    my $inodes = int($disk_bytes / 4096) + 1000;
    sys('mount', 'files', '/rw', 'tmpfs', MS_NOSUID | MS_NODEV, "mode=755,size=$disk_bytes,nr_inodes=$inodes");
    for ([ 'home', '/home/user', 0755 ], [ 'tmp', '/tmp', 01777 ], [ 'shm', '/dev/shm', 01777 ]) {
        my ($name, $at, $mode) = @$_;
        mkdir "/rw/$name";
        chmod $mode, "/rw/$name";
        bind_mount("/rw/$name", $at);
    }
    sys('umount2', '/rw', MNT_DETACH);
    rmdir '/rw';

    for my $name (qw(null zero full random urandom)) { bind_mount("/old/dev/$name", "/dev/$name") }
    mkdir '/dev/pts', 0755;
    sys('mount', 'devpts', '/dev/pts', 'devpts', MS_NOSUID | MS_NOEXEC, 'newinstance,ptmxmode=0666,mode=620');
    symlink 'pts/ptmx', '/dev/ptmx';
    symlink '/proc/self/fd', '/dev/fd';
    symlink "/proc/self/fd/$$_[0]", "/dev/$$_[1]" for [ 0, 'stdin' ], [ 1, 'stdout' ], [ 2, 'stderr' ];

    mkdir '/proc', 0755;
    sys('mount', 'proc', '/proc', 'proc', MS_NOSUID | MS_NODEV | MS_NOEXEC, 0);
    if (open my $limit, '>', '/proc/sys/user/max_user_namespaces') { print $limit "0\n" }
    for my $path (grep { -e } qw(/proc/sys /proc/sysrq-trigger /proc/irq /proc/bus)) {
        bind_mount($path, $path);
        set_mount_flags($path, MS_RDONLY);
    }

    for (@$plan) {
        my ($operation, $at, $from) = @$_;
        if ($operation eq 'bind') {
            bind_mount("/old$from", $at);
            set_mount_flags($at, MS_RDONLY | MS_NOSUID | MS_NODEV);
        }
        else { make_parents($at); symlink $from, $at or die "cannot link $at: $!\n" }
    }

    sys('umount2', '/old', MNT_DETACH);
    rmdir '/old';
    sys('mount', 'none', '/', 0, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, 0);
}

sub write_file {
    my ($path, $text) = @_;
    open my $file, '>', $path or die "cannot open $path: $!\n";
    (syswrite $file, $text) // die "cannot write $path: $!\n";
}

sub drop_capabilities {
    for my $capability (0 .. 63) { syscall $SYS->{prctl}, PR_CAPBSET_DROP, $capability, 0, 0, 0 }
    sys('capset', pack('L2', 0x20080522, 0), pack('L6', (0) x 6));
}

sub loopback_up {
    socket my $socket, 2, 2, 0 or die "socket: $!\n";
    my $request = pack 'a16 s x22', 'lo', 0x41;    # IFF_UP | IFF_RUNNING
    ioctl $socket, 0x8914, $request or die "cannot bring loopback up: $!\n";
}

# --- starting, watching, killing -------------------------------------------------------------------------------------

# As root, mounts all sources of sandboxes where any uid can reach them, in a mount namespace that only the launcher and its
# children have. So an unprivileged uid can build each sandbox.
sub stage {
    my (@sources) = @_;
    sys('unshare', NEW_MOUNT);
    sys('mount', 'none', '/', 0, MS_SLAVE | MS_REC, 0);
    my @held = map { open_path($_) } @sources;
    sys('mount', 'stage', '/mnt', 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=755,size=1m');
    for my $index (0 .. $#sources) { bind_mount('/proc/self/fd/' . fileno $held[$index], "/mnt/$index") }
}

sub open_path { my ($path) = @_; sysopen my $handle, $path, O_PATH or die "cannot open $path: $!\n"; return $handle }

sub become { my ($id) = @_; sys('setgroups', 0, 0); sys('setresgid', $id, $id, $id); sys('setresuid', $id, $id, $id) }

# Runs in a process of its own. @setup: the path of bubblewrap and its arguments, or the plan with three fields per entry, or
# the word 'container' where the container around the runner is the sandbox already.
sub start_sandbox {
    my ($status, $host_socket, $token, $ports, $disk_bytes, @setup) = @_;
    if ($setup[0] eq 'container') {
        open STDIN, '<', '/dev/null' or die;
        open STDOUT, '>', '/dev/null' or die;
        syswrite $status, "\"child-pid\": $$\nready\n";
        close $status;
        run_init(fileno $host_socket, $token, $ports, 1);
    }
    if ($> == 0) {
        # Each sandbox has a host uid of its own, from a range that no host assigns.
        become(1_900_000_000 + $$);
        sys('prctl', PR_SET_DUMPABLE, 1, 0, 0, 0);    # Otherwise /proc/self belongs to root, and the uid map cannot be written.
    }
    open STDIN, '<', '/dev/null' or die;
    open STDOUT, '>', '/dev/null' or die;
    if ($setup[0] =~ m{^/}) {
        open STDERR, '>&', $status;
        open my $info, '>&', $status or die;           # Bubblewrap closes this one.
        fcntl $_, F_SETFD, 0 for $status, $info, $host_socket;
        my %descriptor = ('@status' => fileno $status, '@info' => fileno $info, '@host' => fileno $host_socket);
        exec { $setup[0] } map { $descriptor{$_} // $_ } @setup or die "cannot start bwrap: $!\n";
    }
    my ($uid, $gid) = ($>, $) + 0);
    sys('unshare', NEW_USER);
    write_file('/proc/self/setgroups', 'deny');
    write_file('/proc/self/uid_map', "1000 $uid 1");
    write_file('/proc/self/gid_map', "1000 $gid 1");
    sys('unshare', NEW_MOUNT | NEW_OTHERS);
    my $pid = fork // die "fork: $!\n";
    if ($pid) { syswrite $status, "\"child-pid\": $pid\n"; leave(0) }
    my @plan;
    while (@setup) { push @plan, [ splice @setup, 0, 3 ] }
    build_root(\@plan, $disk_bytes);
    sys('sethostname', 'sandbox', 7);
    loopback_up();
    drop_capabilities();
    syswrite $status, "ready\n";
    close $status;
    run_init(fileno $host_socket, $token, $ports);
}

# Bytes in the files of a sandbox. Counts each file system once.
sub files_of {
    my ($root) = @_;
    my (%seen, $bytes);
    for my $folder (map { "/proc/self/fd/" . fileno($root) . $_ } qw(/home/user /tmp /dev/shm)) {
        my $device = (stat $folder)[0] // die "cannot see a sandbox's files: $!\n";
        next if $seen{$device}++;
        my $buffer = "\0" x 128;
        syscall($SYS->{statfs}, $folder, $buffer) == 0 or die "cannot see a sandbox's files: $!\n";
        my (undef, $block_bytes, $blocks, $free) = unpack 'q4', $buffer;
        $bytes += ($blocks - $free) * $block_bytes;
    }
    return $bytes;
}

# Bytes in the processes of a sandbox, plus $files. The cheap count counts a shared page once for each sharer, so a result
# over the limit is checked against the kernel's proportional count, which a process may hide from its own user.
sub memory_of {
    my ($root, $files, $limit) = @_;
    my $path = '/proc/self/fd/' . fileno $root;
    opendir my $folder, "$path/proc" or die "cannot look into a sandbox: $!\n";
    my @pids = grep { /^\d+$/ && !is_ours($_) } readdir $folder;
    my $kilobytes_of = sub {
        my ($pid, $name, $pattern) = @_;
        open my $file, '<', "$path/proc/$pid/$name" or return;
        my $text = do { local $/; <$file> } // return;
        my $kilobytes = 0;
        $kilobytes += $1 while $text =~ /$pattern/g;
        return $kilobytes;
    };
    my $resident = sub { $kilobytes_of->($_[0], 'status', qr/^Rss(?:Anon|Shmem):\s+(\d+)/m) // 0 };
    my $proportional = sub { $kilobytes_of->($_[0], 'smaps_rollup', qr/^Pss_(?:Anon|Shmem):\s+(\d+)/m) };
    my $bytes = $files;
    $bytes += 1024 * $resident->($_) for @pids;
    return $bytes if $bytes <= $limit;
    $bytes = $files;
    # A process that has ended meanwhile has neither.
    $bytes += 1024 * ($proportional->($_) // $resident->($_)) for @pids;
    return $bytes;
}

# In a container, the visible processes include the launcher and the runner. Elsewhere the ids are of another namespace.
my $is_container;
sub is_ours { my ($pid) = @_; return $is_container && ($pid == $$ || $pid == getppid) }

# Reads requests from stdin and writes events to stdout. When stdin ends, the platform is gone, and all sandboxes are killed.
sub run_launcher {
    my ($scratch, @sources) = @_;
    $0 = 'platform-sandbox-launcher';
    umask 022;
    $SIG{PIPE} = 'IGNORE';
    my $host_socket = open_path("$scratch/host.sock");
    stage(@sources) if $> == 0;
    sys('prctl', PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    my $tell = sub { my $text = join "\0", @_; write_all(\*STDOUT, pack 'N/a*', $text) };
    my $next_look = 0;
    # id => { status, said, root, had, end, limit, disk, over }: status is the pipe of one that starts, said is its text so
    # far; root is its folder, had are the bytes in its files before it started; end is readable when it has ended; limit
    # and disk are its limits in bytes; over counts the looks at which it was over them.
    my %sandboxes;
    my $requests = '';

    $tell->('started');
    while (1) {
        1 while waitpid(-1, WNOHANG) > 0;
        my @all = values %sandboxes;
        my $wait = (grep { $_->{limit} } @all) ? ($next_look - milliseconds()) / 1000 : undef;
        my $handles = [ \*STDIN, map { grep { $_ } $_->{status}, $_->{end} } @all ];
        my ($readable) = wait_for($handles, [], defined $wait && $wait < 0 ? 0 : $wait);
        my $is_time = milliseconds() >= $next_look;
        $next_look = milliseconds() + WATCH_INTERVAL_MS if $is_time;

        for my $id (keys %sandboxes) {
            my $sandbox = $sandboxes{$id};
            if ($sandbox->{status} && is_in($readable, $sandbox->{status})) {
                my $count = sysread $sandbox->{status}, $sandbox->{said}, CHUNK, length $sandbox->{said};
                my ($pid) = $sandbox->{said} =~ /"child-pid": (\d+)/;
                if ($pid && $sandbox->{said} =~ /^ready$/m) {
                    my $ok = eval {
                        $sandbox->{root} = open_path($is_container ? '/' : "/proc/$pid/root");
                        $sandbox->{had} = $is_container ? files_of($sandbox->{root}) : 0;
                        open $sandbox->{end}, '<&=', sys($PIDFD_OPEN, 0 + $pid, 0) or die;
                        1;
                    };
                    delete $sandbox->{status};
                    if ($ok) { $tell->('ready', $id) }
                    else     { $tell->('failed', $id, $@); delete $sandboxes{$id} }
                }
                elsif (!$count) { $tell->('failed', $id, $sandbox->{said}); delete $sandboxes{$id} }
            }
            elsif ($sandbox->{end} && is_in($readable, $sandbox->{end})) { $tell->('gone', $id); delete $sandboxes{$id} }
            elsif ($sandbox->{limit} && $is_time) {
                my $bytes = eval {
                    my $files = files_of($sandbox->{root}) - $sandbox->{had};
                    # Enforces the disk limit where the sandbox has no file system of its own that does.
                    $files > $sandbox->{disk} ? $sandbox->{limit} + 1 : memory_of($sandbox->{root}, $files, $sandbox->{limit});
                };
                # A sandbox that cannot be watched must not run. Usually it is ending already, so memory is not blamed.
                if (!defined $bytes) { kill_sandbox($sandbox) }
                elsif ($bytes <= $sandbox->{limit}) { $sandbox->{over} = 0 }
                elsif (!$sandbox->{over}++) { $tell->('memory', $id) }
                elsif ($sandbox->{over} > 5) { kill_sandbox($sandbox) }
            }
        }
        if (is_in($readable, \*STDIN)) {
            if (!sysread STDIN, $requests, CHUNK, length $requests) {
                kill_sandbox($_) for values %sandboxes;
                unlink glob "$scratch/*";
                rmdir $scratch;
                exit 0;
            }
            while (my ($request, $id, @fields) = take_record(\$requests)) {
                if ($request eq 'start') {
                    pipe my $status, my $status_writer or die;
                    if ($fields[3] eq 'container') {
                        # Commands have the launcher's uid and could otherwise read and trace it.
                        sys('prctl', PR_SET_DUMPABLE, 0, 0, 0, 0);
                        $is_container = 1;
                    }
                    $sandboxes{$id} = { status => $status, said => '' };
                    my $pid = fork // next;
                    next if $pid;
                    eval { start_sandbox($status_writer, $host_socket, @fields); 1 } or syswrite $status_writer, $@;
                    leave(1);
                }
                elsif ($request eq 'watch') { @{ $sandboxes{$id} }{qw(limit disk)} = @fields if $sandboxes{$id} }
                elsif ($request eq 'kill')  { kill_sandbox($sandboxes{$id}) if $sandboxes{$id} }
            }
        }
    }
}

sub kill_sandbox {
    my ($sandbox) = @_;
    return unless $sandbox->{end};
    syscall $PIDFD_SEND_SIGNAL, fileno $sandbox->{end}, 9, 0, 0;
    # No namespace ends with its init, so its other processes are now children of the launcher.
    kill_tree() if $is_container;
}

run_launcher(@ARGV);
