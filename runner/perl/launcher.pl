#!/usr/bin/perl
# The launcher: one per platform process, outside all sandboxes. It forks and kills sandboxes and their watchers. A fork
# from here is much cheaper than a spawn from Node's large process, and needs only programs that Debian has. Arguments:
# its scratch folder, which holds the host's socket; the parent cgroup of sandboxes, or nothing; and as root the sources
# to stage.
use strict;
use warnings;

our ($SYS, $PIDFD_SEND_SIGNAL, $OPEN_TREE, $MOVE_MOUNT, $PIDFD_OPEN, $MOUNT_SETATTR);
BEGIN {
    require(__FILE__ =~ s{[^/]*$}{init.pl}r);    # A sandbox runs its init; its helpers are used here, too.
    require(__FILE__ =~ s{[^/]*$}{watcher.pl}r);
    require(__FILE__ =~ s{[^/]*$}{cgroup.pl}r);
}

use constant {
    MS_RDONLY => 1, MS_NOSUID => 2, MS_NODEV => 4, MS_NOEXEC => 8, MS_REMOUNT => 32, MS_BIND => 4096, MS_REC => 16384,
    MS_SLAVE => 1 << 19, MNT_DETACH => 2,
    NEW_USER => 0x10000000, NEW_PID => 0x20000000, NEW_MOUNT => 0x00020000, SIGCHLD => 17,
    NEW_OTHERS => 0x40000000 | 0x08000000 | 0x04000000 | 0x02000000,    # Of the network, IPC, host names, cgroups.
    OPEN_TREE_CLONE => 1, AT_EMPTY_PATH => 0x1000, MOUNT_ATTR_IDMAP => 0x00100000, MOVE_MOUNT_F_EMPTY_PATH => 4,
    PR_CAPBSET_DROP => 24, O_PATH => 010000000, O_CLOEXEC => 02000000, MSG_CMSG_CLOEXEC => 0x40000000,
    # Mount point of the host's files while a sandbox is built. Later this folder holds devpts.
    OLD => '/dev/pts',
    # Each sandbox has its own host uid, from a range that no host assigns.
    FIRST_UID => 1_900_000_000,
    # The watchers of idle sandboxes are woken when this fraction of the machine's free memory is used up.
    WAKE_PART => 1 / 16, MEMORY_LOOK_SECONDS => 0.2,
};

# --- building a sandbox ----------------------------------------------------------------------------------------------

sub touch { my ($path) = @_; open my $file, '>', $path or die "cannot create $path: $!\n" }

sub bind_mount {
    my ($source, $target) = @_;
    make_parents($target);
    if (-d $source) { mkdir $target, 0755 unless -d $target }
    else            { touch($target) unless -e $target }
    eval { sys('mount', $source, $target, 0, MS_BIND | MS_REC, 0); 1 } or die "cannot show $source at $target: $@";
}

# Mounts each folder that holds sources of $plan (which are below $old) below $at, where their paths are hidden. Returns
# the mounts: folder => mount. Sources with the same path inside are skipped, and all of them if the kernel refuses.
sub hide_paths {
    my ($plan, $old, $at, $nothing) = @_;
    my %folders = map { -d $_ ? ($_ => 1) : (s{/[^/]+$}{}r => 1) }
        map { "$old$$_[2]" } grep { $$_[0] eq 'bind' && $$_[1] ne $$_[2] } @$plan;
    my %mounts;
    for my $folder (sort keys %folders) {
        next if grep { inside($folder, $_) } keys %mounts;
        my $mount = "$at/" . keys %mounts;
        mkdir $mount, 0755;
        last unless hidden_mount($folder, $mount, $nothing);
        $mounts{$folder} = $mount;
    }
    return \%mounts;
}

# Mounts a folder read-only through an overlay: /proc/self/mountinfo shows the full path of a bind mount, but of an
# overlay only the folder arguments, here ".". An overlay of a single folder needs a writable one, so $nothing is a
# second one. It must remain, because folders are listed empty without it. Returns nothing if the kernel refuses.
sub hidden_mount {
    my ($folder, $at, $nothing) = @_;
    chdir $folder or die "cannot enter $folder: $!\n";
    my $is_mounted = eval { sys('mount', 'host', $at, 'overlay', MS_RDONLY | MS_NOSUID | MS_NODEV, "lowerdir=.:$nothing"); 1 };
    chdir '/';
    return $is_mounted;
}

# Shows $folder writable at $at, through an overlay that keeps all changes below $files, in the file system that holds
# the sandbox's files. Nothing inside shows the two folders there, so no program can plant what the kernel's overlay
# itself writes into them. Returns nothing if the kernel cannot: the user must own $folder to copy a file up, and a
# removed folder that is made anew needs an extended attribute, which tmpfs has had since Linux 6.6.
sub writable_mount {
    my ($folder, $at, $files) = @_;
    return if syscall($SYS->{setxattr}, $files, my $name = 'user.probe', my $value = '', 0, 0) == -1;
    chdir $folder or die "cannot enter $folder: $!\n";
    my $options = "lowerdir=.,upperdir=$files/changed,workdir=$files/changing,userxattr";
    my $is_mounted = (stat '.')[4] == $> && eval {
        mkdir "$files/$_", 0755 for qw(changed changing);
        sys('mount', 'host', $at, 'overlay', MS_NOSUID | MS_NODEV, $options);
        1;
    };
    chdir '/';
    return $is_mounted;
}

# As root, returns a copy of the mount at $path on which the files of user 1000 belong to user 1000 of the process $pid
# and its user namespace. It is attached nowhere.
sub mount_for_user {
    my ($path, $pid) = @_;
    open my $mount, '<&=', sys($OPEN_TREE, -100, $path, OPEN_TREE_CLONE | O_CLOEXEC) or die;
    open my $users, '<', "/proc/$pid/ns/user" or die "cannot see a sandbox's users: $!\n";
    my $flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MOUNT_ATTR_IDMAP;
    sys($MOUNT_SETATTR, fileno $mount, '', AT_EMPTY_PATH, pack('Q4', $flags, 0, 0, fileno $users), 32);
    return $mount;
}

# Sends a byte over a Unix socket, with a descriptor if $handle is one (unix(7), cmsg(3)).
sub send_go {
    my ($socket, $handle) = @_;
    my $byte = '.';
    my $part = pack 'P Q', $byte, length $byte;
    my $control = $handle ? pack('Q l l l x4', 20, 1, 1, fileno $handle) : '';    # SOL_SOCKET, SCM_RIGHTS
    sys('sendmsg', fileno $socket, pack('x16 P Q P Q x8', $part, 1, $control, length $control), 0);
}

# Waits for send_go. Returns whether it came, and the handle or nothing.
sub wait_for_go {
    my ($socket) = @_;
    # Written by the kernel, so they may share their memory with no other string. vec() sees to that.
    my ($byte, $control) = ('', '');
    vec($byte, 0, 8) = vec($control, 23, 8) = 0;
    my $part = pack 'P Q', $byte, 1;
    my $message = pack 'x16 P Q P Q x8', $part, 1, $control, length $control;
    return unless syscall($SYS->{recvmsg}, fileno $socket, $message, MSG_CMSG_CLOEXEC) > 0;
    my $has_handle = unpack 'x40 Q', $message;
    return 1 unless $has_handle;
    open my $handle, '<&=', unpack('x16 l', $control) or die;
    return (1, $handle);
}

sub inside { my ($path, $folder) = @_; return $path eq $folder || index($path, "$folder/") == 0 }

# Sets flags recursively. Keeps existing flags, which a remount by an ordinary user may not drop.
sub set_mount_flags {
    my ($path, $flags) = @_;
    sys($MOUNT_SETATTR, -100, $path, 0x8000, pack('Q4', $flags, 0, 0, 0), 32);
}

# Builds the common part of all sandboxes in the empty folder $base, a mount; '' is the root folder. $old: the root
# folder of the host. $plan: a list of [operation, at, from] (host-runtime.ts).
sub build_common {
    my ($base, $old, $plan) = @_;
    mkdir "$base/$_", 0755 for qw(tmp home home/user dev dev/shm dev/pts proc hidden .nothing);
    for my $name (qw(null zero full random urandom)) { bind_mount("$old/dev/$name", "$base/dev/$name") }
    symlink 'pts/ptmx', "$base/dev/ptmx";
    symlink '/proc/self/fd', "$base/dev/fd";
    symlink "/proc/self/fd/$$_[0]", "$base/dev/$$_[1]" for [ 0, 'stdin' ], [ 1, 'stdout' ], [ 2, 'stderr' ];

    sys('mount', 'hidden', "$base/hidden", 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=755,size=1m');
    my $hidden = hide_paths($plan, $old, "$base/hidden", "$base/.nothing");
    for (@$plan) {
        my ($operation, $at, $from) = @$_;
        if ($operation eq 'bind') {
            my $source = "$old$from";
            my ($folder) = $at eq $from ? () : grep { inside($source, $_) } keys %$hidden;
            bind_mount($folder ? $hidden->{$folder} . substr($source, length $folder) : $source, "$base$at");
            set_mount_flags("$base$at", MS_RDONLY | MS_NOSUID | MS_NODEV);
        }
        else {
            make_parents("$base$at");
            $operation eq 'link' ? symlink $from, "$base$at" : mkdir "$base$at", 0755 or die "cannot make $at: $!\n";
        }
    }
    sys('umount2', "$base/hidden", MNT_DETACH);    # With all mounts in it: each umount waits for all processors.
    rmdir "$base/hidden";
    sys('mount', 'none', length $base ? $base : '/', 0, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, 0);
}

# Returns /etc/hosts of a sandbox if some of its ports have names (launcher.ts). The first two lines are those of
# host-runtime.ts.
sub hosts_file {
    my ($ports) = @_;
    my %addresses = map { (split /=/)[3, 2] } grep { tr/=// == 3 } split /,/, $ports;
    return '' unless %addresses;
    return join '', "127.0.0.1 localhost sandbox\n::1 localhost\n", map { "$addresses{$_} $_\n" } sort keys %addresses;
}

# Moves into a new file system. $common: folder of the common part that the launcher has built; if empty, it is built
# here from $plan. $own: a list of [at, from, bytes], the folders that are specific to this sandbox; bytes is the size of
# one that is writable, '' for one that is not. $mount: the mount to attach at the writable one's from, or nothing.
# $hosts: the content of /etc/hosts, or '' for that of the plan.
sub enter_root {
    my ($common, $plan, $own, $disk_bytes, $mount, $hosts) = @_;
    sys('mount', 'none', '/', 0, MS_SLAVE | MS_REC, 0);
    # Mounted over /tmp because that always exists. After pivot_root it hides nothing.
    if (length $common) { sys('mount', $common, '/tmp', 0, MS_BIND | MS_REC, 0) }
    else                { sys('mount', 'sandbox', '/tmp', 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=755,size=1m'); mkdir "/tmp$_", 0755 for '/dev', OLD }
    chdir '/tmp';
    sys('pivot_root', '.', substr OLD, 1);
    chdir '/';
    build_common('', OLD, $plan) unless length $common;

    # A non-empty file takes at least a page, so the bytes run out before the inodes do. The inode limit bounds empty
    # files. Mounted over a folder of the host that exists and has no sources.
    my $files = OLD . '/dev';
    my $size = sub { my ($bytes) = @_; return "mode=755,size=$bytes,nr_inodes=" . (int($bytes / 4096) + 1000) };
    sys('mount', 'files', $files, 'tmpfs', MS_NOSUID | MS_NODEV, $size->($disk_bytes));
    for ([ 'home', '/home/user', 0755 ], [ 'tmp', '/tmp', 01777 ], [ 'shm', '/dev/shm', 01777 ]) {
        my ($name, $at, $mode) = @$_;
        mkdir "$files/$name";
        chmod $mode, "$files/$name";
        sys('mount', "$files/$name", $at, 0, MS_BIND, 0);
    }
    if (length $hosts) {
        write_file("$files/hosts", $hosts);
        bind_mount("$files/hosts", '/etc/hosts');
        set_mount_flags('/etc/hosts', MS_RDONLY | MS_NOSUID | MS_NODEV);
    }
    for (@$own) {
        my ($at, $source, $bytes) = ($$_[0], OLD . $$_[1], $$_[2]);
        make_parents("$at/.");
        if (length $bytes) {
            sys($MOVE_MOUNT, fileno $mount, '', -100, $source, MOVE_MOUNT_F_EMPTY_PATH) if $mount;
            next if writable_mount($source, $at, $files);
            # The copy leaves the program as much space as it would have without one.
            sys('mount', 'none', $files, 0, MS_REMOUNT | MS_NOSUID | MS_NODEV, $size->($disk_bytes + $bytes));
            copy_folder($source, $at);
            next;
        }
        next if hidden_mount($source, $at, '/.nothing');
        bind_mount($source, $at);
        set_mount_flags($at, MS_RDONLY | MS_NOSUID | MS_NODEV);
    }
    sys('mount', 'proc', '/proc', 'proc', MS_NOSUID | MS_NODEV | MS_NOEXEC, 0);
    if (open my $limit, '>', '/proc/sys/user/max_user_namespaces') { syswrite $limit, "0\n" }
    for my $path (grep { -e } qw(/proc/sys /proc/sysrq-trigger /proc/irq /proc/bus)) {
        sys('mount', $path, $path, 0, MS_BIND | MS_REC, 0);
        set_mount_flags($path, MS_RDONLY);
    }
    sys('umount2', OLD, MNT_DETACH);
    sys('mount', 'devpts', '/dev/pts', 'devpts', MS_NOSUID | MS_NOEXEC, 'newinstance,ptmxmode=0666,mode=620');
}

sub write_file {
    my ($path, $text) = @_;
    open my $file, '>', $path or die "cannot open $path: $!\n";
    (syswrite $file, $text) // die "cannot write $path: $!\n";
}

sub drop_capabilities {
    for my $capability (0 .. 63) { last if syscall($SYS->{prctl}, PR_CAPBSET_DROP, $capability, 0, 0, 0) == -1 }    # The kernel has no more.
    sys('capset', pack('L2', 0x20080522, 0), pack('L6', (0) x 6));
}

sub loopback_up {
    socket my $socket, 2, 2, 0 or die "socket: $!\n";
    my $request = pack 'a16 s x22', 'lo', 0x41;    # IFF_UP | IFF_RUNNING
    ioctl $socket, 0x8914, $request or die "cannot bring loopback up: $!\n";
}

# --- starting and killing -------------------------------------------------------------------------------------

# As root, mounts all sources of sandboxes where any uid can reach them, in a mount namespace of the launcher and its
# children only. This lets an unprivileged uid build each sandbox.
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

# In a fork of the launcher: closes everything except the standard three and @handles, because the launcher's handles
# give access to other sandboxes. Handles that are not in %$sandboxes get /dev/null in their place, because Perl may
# know the number (close_all_but).
sub keep_only {
    my ($sandboxes, @handles) = @_;
    close $_ for map { grep { ref eq 'GLOB' } values %$_ } values %$sandboxes;
    open my $nothing, '<', '/dev/null' or die "cannot open /dev/null: $!\n";
    my %keep = map { fileno($_) => 1 } $nothing, @handles;
    sys('dup3', fileno $nothing, 0 + $_, O_CLOEXEC) for grep { !$keep{$_} } open_descriptors();
}

# Raises the priority: the launcher and its watchers must run even when sandboxes keep all processors busy.
sub go_first {
    setpriority 0, 0, -5;
    if (open my $group, '>', '/proc/self/autogroup') { syswrite $group, -5 }
}

# Sets the session and the nice value of a sandbox. With autogroup, the scheduler shares processor time between
# sessions.
sub go_last {
    sys('setsid');
    setpriority 0, 0, BASE_NICE;
    if (open my $group, '>', '/proc/self/autogroup') { syswrite $group, BASE_NICE }
}

# As root, builds the common part of all sandboxes of a plan once: a sandbox then shows it with one mount. Returns its
# folder, or '' for an ordinary user, who cannot mount anything here.
sub common_root {
    my ($name, $plan) = @_;
    return '' if $> != 0;
    my $base = "/mnt/$name";
    mkdir $base, 0755;
    sys('mount', 'sandbox', $base, 'tmpfs', MS_NOSUID | MS_NODEV, 'mode=755,size=1m');
    build_common($base, '', $plan);
    return $base;
}

# Forks a process that is root in its own user namespace and process 1 in its own pid namespace. It waits in
# join_namespaces. Returns like fork.
sub fork_into_namespaces { my $pid = syscall $SYS->{clone}, NEW_USER | NEW_PID | SIGCHLD, 0, 0, 0, 0; return $pid == -1 ? undef : $pid }

# Maps user 1000 of such a process to $id outside.
sub name_user {
    my ($pid, $id) = @_;
    write_file("/proc/$pid/setgroups", 'deny');
    write_file("/proc/$pid/uid_map", "1000 $id 1");
    write_file("/proc/$pid/gid_map", '1000 ' . ($> == 0 ? $id : $) + 0) . ' 1');
}

# Runs in the new process. $go becomes readable when its user is mapped. Returns the mount that comes with that, if any.
sub join_namespaces {
    my ($go) = @_;
    my ($is_mapped, $mount) = wait_for_go($go);
    leave(1) unless $is_mapped;    # The launcher has ended, or failed.
    close $go;
    sys('setresgid', 1000, 1000, 1000);
    sys('setresuid', 1000, 1000, 1000);
    sys('prctl', PR_SET_DUMPABLE, 1, 0, 0, 0);    # Otherwise the launcher could not open its /proc entries as an ordinary user.
    sys('unshare', NEW_MOUNT | NEW_OTHERS);
    return $mount;
}

sub ignore_standard_streams {
    open STDIN, '<', '/dev/null' or die;
    open STDOUT, '>', '/dev/null' or die;
}

# Returns the folders of a request as a list of [at, from, bytes].
sub own_folders { my @folders; while (@_) { push @folders, [ splice @_, 0, 3 ] } return \@folders }

# Runs in the new process. $outer: the launcher's pid namespace. $common, $plan, @own: as in enter_root.
sub start_in_namespaces {
    my ($status, $host_socket, $outer, $entrance, $go, $common, $plan, $token, $ports, $disk_bytes, @own) = @_;
    go_last();
    ignore_standard_streams();
    my $mount = join_namespaces($go);
    # Only root could listen on the ports below 1024 otherwise.
    write_file('/proc/sys/net/ipv4/ip_unprivileged_port_start', '0') if $ports =~ /\btarget-\d+=\d{1,3}=/;
    enter_root($common, $plan, own_folders(@own), $disk_bytes, $mount, hosts_file($ports));
    undef $mount;
    sys('sethostname', 'sandbox', 7);
    loopback_up();
    drop_capabilities();
    check_is_process_1($outer);
    syswrite $status, "ready\n";
    close $status;
    run_init(fileno $host_socket, $token, $ports, $outer, $entrance && fileno $entrance);
}

# Runs in a separate process, if the container around the runner already is the sandbox.
sub start_in_container {
    my ($status, $host_socket, $token, $ports) = @_;
    ignore_standard_streams();
    syswrite $status, "\"child-pid\": $$\nready\n";
    close $status;
    run_init(fileno $host_socket, $token, $ports);
}

# Runs in a separate process. @command: the path of bubblewrap and its arguments.
sub start_bubblewrap {
    my ($status, $host_socket, $outer, $entrance, $ports, @command) = @_;
    go_last();
    if ($> == 0) {
        become(FIRST_UID + $$);
        sys('prctl', PR_SET_DUMPABLE, 1, 0, 0, 0);    # Otherwise /proc/self belongs to root, and the uid map cannot be written.
    }
    ignore_standard_streams();
    open STDERR, '>&', $status;
    open my $info, '>&', $status or die;           # Bubblewrap closes this one.
    fcntl $_, F_SETFD, 0 for $status, $info, $host_socket, $entrance ? $entrance : ();
    my %value = ('@status' => fileno $status, '@info' => fileno $info, '@host' => fileno $host_socket, '@outer' => $outer);
    pipe my $hosts, my $hosts_writer or die;
    syswrite $hosts_writer, hosts_file($ports);    # It fits into a pipe.
    fcntl $hosts, F_SETFD, 0;
    $value{'@hosts'} = fileno $hosts;
    $value{'@entrance'} = $entrance ? fileno $entrance : '';
    exec { $command[0] } map { $value{$_} // $_ } @command or die "cannot start bwrap: $!\n";
}

my $is_container;

# Returns the memory that is available to programs on this machine.
sub available_kilobytes {
    open my $file, '<', '/proc/meminfo' or return 0;
    sysread $file, my $text, 256;
    return $text =~ /^MemAvailable:\s+(\d+)/m ? $1 : 0;
}

sub processes_here {
    opendir my $folder, '/proc' or die "cannot list processes: $!\n";
    return grep { /^\d+$/ } readdir $folder;
}

# Returns the bytes in the files of a sandbox. Counts each file system once.
sub files_of {
    my ($root) = @_;
    my (%seen, $bytes);
    for my $folder (map { "/proc/self/fd/" . fileno($root) . $_ } qw(/home/user /tmp /dev/shm)) {
        next if $is_container && !-e $folder;    # A Lambda function has no /dev/shm.
        my $device = (stat $folder)[0] // die "cannot see a sandbox's files: $!\n";
        next if $seen{$device}++;
        my $buffer = "\0" x 128;
        syscall($SYS->{statfs}, $folder, $buffer) == 0 or die "cannot see a sandbox's files: $!\n";
        my (undef, $block_bytes, $blocks, $free) = unpack 'q4', $buffer;
        $bytes += ($blocks - $free) * $block_bytes;
    }
    return $bytes;
}

my @around;    # In a container, the processes that were there before any session.

# Returns the number of processes of a sandbox, init included, and its bytes, or '' if it has just ended. Shared memory
# counts once for each process.
sub use_of {
    my ($sandbox) = @_;
    my $processes = eval { processes_of($sandbox->{root}, { map { $_ => 1 } $is_container ? @around : () }) } or return '';
    my $bytes = eval { files_of($sandbox->{root}) - $sandbox->{had} } // return '';
    $bytes += 1024 * ($_->{RssAnon} + $_->{RssShmem} + $_->{VmSwap}) for values %$processes;
    return join ' ', scalar keys %$processes, $bytes;
}

# Reads requests from stdin and writes events to stdout. When stdin ends, the platform has ended, and all sandboxes are
# killed.
sub run_launcher {
    my ($scratch, $group, @sources) = @_;
    $0 = 'platform-sandbox-launcher';
    close_all_but();
    my $namespace = readlink('/proc/self/ns/pid') // die "cannot see the pid namespace: $!\n";
    umask 022;
    $SIG{PIPE} = 'IGNORE';
    my $host_socket = open_path("$scratch/host.sock");
    if ($> == 0) { sys('setgroups', 0, 0); stage(@sources); go_first() }
    sys('prctl', PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    my $tell = sub { my $text = join "\0", @_; write_all(\*STDOUT, pack 'N/a*', $text) };
    # id => { status, said, pid, group, kills, root, net, uid, had, end, limit, disk, watch_at, watcher }: status is the
    # pipe of a starting sandbox, said its text so far; root is its folder, net its network, uid its user on the host;
    # had is the number of bytes in its files before it started; end becomes readable when it has ended; limit and disk
    # are its limits in bytes; watch_at is when its watcher starts: with the first check, since most sandboxes are gone
    # by then, or with the second one, is_seen; watcher is the pipe of its watcher, watcher_id the watcher's process.
    # Alternative to the watcher: group is its cgroup, kills is the number of processes that the kernel has killed for
    # their memory.
    my %sandboxes;
    my (%plans, %commons);    # By name: what sandboxes show, and where it is built (common_root).
    my @ended_groups;
    my $requests = '';
    my $most_available = 0;
    my $tell_kills = sub {
        my ($id) = @_;
        my $sandbox = $sandboxes{$id};
        return if !$sandbox->{group} || !defined $sandbox->{kills};
        my $kills = memory_kills($sandbox->{group});
        $tell->('memory', $id) if $kills > $sandbox->{kills};
        $sandbox->{kills} = $kills;
    };
    my $start_watching = sub {
        my ($id) = @_;
        my $sandbox = $sandboxes{$id};
        delete $sandbox->{watch_at};
        my $forget = sub {
            my %others = map { $_ => $sandboxes{$_} } grep { $_ ne $id } keys %sandboxes;
            keep_only(\%others, grep { $_ } @$sandbox{qw(root net end)}, @_);
        };
        # In a container, the visible processes include the launcher, the runner and what is around it. Otherwise the ids
        # belong to another namespace.
        @$sandbox{qw(watcher watcher_id)} = start_watcher($sandbox, $is_container ? \@around : [], $forget);
        kill_sandbox($sandbox) unless $sandbox->{watcher};
    };
    my $forget = sub {
        my ($id) = @_;
        my $sandbox = delete $sandboxes{$id};
        push @ended_groups, $sandbox->{group} if $sandbox->{group};
    };

    $tell->('started');
    while (1) {
        1 while waitpid(-1, WNOHANG) > 0;
        @ended_groups = grep { !remove_group($_) } @ended_groups;
        my $handles = [ \*STDIN, map { grep { $_ } @$_{qw(status end watcher)} } values %sandboxes ];
        my $is_watched = grep { $_->{watcher} } values %sandboxes;
        my @waits = map { my $wait = $_->{watch_at} - now(); $wait > 0 ? $wait : 0 } grep { $_->{watch_at} } values %sandboxes;
        push @waits, 0.1 if @ended_groups;
        push @waits, MEMORY_LOOK_SECONDS if $is_watched;
        my ($shortest) = sort { $a <=> $b } @waits;
        my ($readable) = wait_for($handles, [], $shortest);

        for my $id (keys %sandboxes) {
            my $sandbox = $sandboxes{$id};
            if ($sandbox->{status} && is_in($readable, $sandbox->{status})) {
                my $count = sysread $sandbox->{status}, $sandbox->{said}, CHUNK, length $sandbox->{said};
                my $pid = $sandbox->{pid} // ($sandbox->{said} =~ /"child-pid": (\d+)/)[0];
                if ($pid && $sandbox->{said} =~ /^ready$/m) {
                    my $ok = eval {
                        $sandbox->{root} = open_path($is_container ? '/' : "/proc/$pid/root");
                        if (!$is_container) { open $sandbox->{net}, '<', "/proc/$pid/ns/net" or die "cannot see a sandbox's network: $!\n" }
                        $sandbox->{had} = files_of($sandbox->{root});
                        open $sandbox->{end}, '<&=', sys($PIDFD_OPEN, 0 + $pid, 0) or die;
                        1;
                    };
                    delete $sandbox->{status};
                    if ($ok) { $tell->('ready', $id) }
                    else     { $tell->('failed', $id, $@); kill_sandbox($sandbox); $forget->($id) }
                }
                elsif (!$count) { $tell->('failed', $id, $sandbox->{said}); $forget->($id) }
            }
            elsif ($sandbox->{end} && is_in($readable, $sandbox->{end})) {
                $tell_kills->($id);
                $tell->('gone', $id);
                $forget->($id);
            }
            elsif ($sandbox->{watcher} && is_in($readable, $sandbox->{watcher})) {
                sysread $sandbox->{watcher}, my $report, 1;
                if ($report eq 'm') { $tell->('memory', $id) }
                # Also after the watcher has died: a sandbox without a watcher must not run.
                else { delete $sandbox->{watcher}; kill_sandbox($sandbox) }
            }
        }
        for my $id (grep { $sandboxes{$_}{watch_at} } keys %sandboxes) {
            my $sandbox = $sandboxes{$id};
            next if $sandbox->{watch_at} > now();
            # The first check is a cheap one: starting a watcher takes longer than most runs still last.
            if (!$is_container && !$sandbox->{is_seen}++ && is_small($sandbox)) { $sandbox->{watch_at} += LOOK_MS / 1000 }
            else                                                                 { $start_watching->($id) }
        }
        # A sandbox that was idle may be using up the machine's memory.
        my $available = $is_watched ? available_kilobytes() : 0;
        if ($available < $most_available * (1 - WAKE_PART)) {
            kill 'USR1', map { $_->{watcher} ? $_->{watcher_id} : () } values %sandboxes;
            $most_available = $available;
        }
        $most_available = $available if $available > $most_available;
        if (is_in($readable, \*STDIN)) {
            if (!sysread STDIN, $requests, CHUNK, length $requests) {
                kill_sandbox($_) for values %sandboxes;
                # Orphans would pass to the runner, which does not reap children that it does not know.
                if ($is_container) { kill_tree(); 1 while waitpid(-1, 0) > 0 }
                unlink glob "$scratch/*";
                rmdir $scratch;
                remove_all($group, @ended_groups, map { $_->{group} // () } values %sandboxes) if length $group;
                exit 0;
            }
            while (my ($request, $id, @fields) = take_record(\$requests)) {
                if ($request eq 'start') {
                    pipe my $status, my $status_writer or die;
                    if ($fields[3] eq 'container') {
                        # Commands have the launcher's uid and could otherwise read and trace it.
                        sys('prctl', PR_SET_DUMPABLE, 0, 0, 0, 0);
                        @around = processes_here() unless $is_container;
                        $is_container = 1;
                    }
                    $sandboxes{$id} = { status => $status, said => '' };
                    my $entrance;
                    if (length $group) {
                        $sandboxes{$id}{group} = "$group/$id";
                        $entrance = eval { make_group("$group/$id") } or syswrite $status_writer, $@;
                        next if !$entrance;
                    }
                    my ($token, $ports, $disk_bytes, $setup, @setup) = @fields;
                    my ($go, $go_writer, $pid, $common, $plan);
                    if ($setup eq 'namespaces') {
                        my $name = shift @setup;
                        $plan = $plans{$name};
                        $common = $commons{$name} //= eval { common_root($name, $plan) };
                        if (!defined $common) { syswrite $status_writer, $@; next }
                        socketpair $go, $go_writer, 1, 1, 0 or die;
                    }
                    $pid = $go ? fork_into_namespaces() : fork;
                    if (!defined $pid) { syswrite $status_writer, "cannot start a process: $!\n"; next }
                    $sandboxes{$id}{uid} = FIRST_UID + $pid;
                    if ($pid) {
                        next unless $go;
                        $sandboxes{$id}{pid} = $pid;
                        eval {
                            enter_own_group("$group/$id", $pid) if $entrance;
                            name_user($pid, $> == 0 ? FIRST_UID + $pid : $>);
                            my ($writable) = map { length $$_[2] ? $$_[1] : () } @{ own_folders(@setup) };
                            send_go($go_writer, $> == 0 && defined $writable && eval { mount_for_user($writable, $pid) });
                        } or syswrite $status_writer, $@;
                        next;
                    }
                    eval {
                        undef $go_writer;
                        keep_only(\%sandboxes, $status_writer, $host_socket, $entrance ? $entrance : (), $go ? $go : ());
                        if ($go) { start_in_namespaces($status_writer, $host_socket, $namespace, $entrance, $go, $common, $plan, $token, $ports, $disk_bytes, @setup) }
                        elsif ($is_container) { start_in_container($status_writer, $host_socket, $token, $ports) }
                        else {
                            enter_own_group("$group/$id", 0) if $entrance;
                            start_bubblewrap($status_writer, $host_socket, $namespace, $entrance, $ports, $setup, @setup);
                        }
                        1;
                    } or syswrite $status_writer, $@;
                    leave(1);
                }
                elsif ($request eq 'plan') {
                    my @plan;
                    while (@fields) { push @plan, [ splice @fields, 0, 3 ] }
                    $plans{$id} = \@plan;
                }
                elsif ($request eq 'watch') {
                    my $sandbox = $sandboxes{$id} or next;
                    my $processes;
                    (@$sandbox{qw(limit disk)}, $processes) = @fields;
                    if ($sandbox->{group}) {
                        $sandbox->{kills} = 0;
                        eval { limit_group($sandbox->{group}, $sandbox->{limit} + $sandbox->{had}, $processes); 1 } or kill_sandbox($sandbox);
                        next;
                    }
                    $sandbox->{watch_at} = now() + LOOK_MS / 1000;
                }
                elsif ($request eq 'look') { $tell_kills->($id) if $sandboxes{$id}; $tell->('looked', $id) }
                elsif ($request eq 'use')   { $tell->('used', $id, $sandboxes{$id} ? use_of($sandboxes{$id}) : '') }
                elsif ($request eq 'kill')  { kill_sandbox($sandboxes{$id}) if $sandboxes{$id} }
            }
        }
    }
}

sub kill_sandbox {
    my ($sandbox) = @_;
    kill_group($sandbox->{group}) if $sandbox->{group};
    return unless $sandbox->{end};
    syscall $PIDFD_SEND_SIGNAL, fileno $sandbox->{end}, 9, 0, 0;
    # The kernel takes some time to remove the sandbox, in which none of its processes runs.
    delete $sandbox->{watch_at};
    # No namespace ends with this init, so its other processes are now children of the launcher.
    kill_tree() if $is_container;
}

run_launcher(@ARGV);
