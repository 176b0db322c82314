/** Most files and folders that are looked at, those of the bundle included. */
export const MAX_ENTRIES = 200_000;

/**
 * A Perl program for the run's sandbox, which looks at, reads and writes the files that tools work on. Perl is in every
 * sandbox, starts in a few milliseconds, and takes little of the sandbox's memory. It needs no other
 * program, and only modules of Debian's `perl-base`.
 *
 * - `mark` prints a mark of the files as they are.
 * - `take BASE STATE MAX_BYTES` prints that nothing has changed since the mark, or a new mark and all entries.
 * - `put BASE IS_FIRST IS_LAST IS_OTHER` writes the entries of its stdin. Several calls can write one snapshot. With
 *   `IS_OTHER`, the files of the bundle stay as they are.
 *
 * Its stdin and stdout hold records: the length as a 32-bit big-endian number, then fields joined by NUL.
 *
 * | record | fields |
 * | --- | --- |
 * | an entry | type, mode, time of change (seconds, with a fraction), size, path, target or names, whether more follows |
 * | mark | `mark`, base, state |
 * | end | `end`, number of entries that were left out, path of the first one |
 * | problem | `problem`, what, number or cause |
 *
 * Types of entries are `file`, followed by `size` bytes of content; `more`, a further part of a file; `folder`, with the
 * names that it holds if others are to be removed; `times`, mode and time of a folder once it is full; `link` and
 * `hard link`. Paths begin with `home/user` and `tmp/tool_output`.
 *
 * The bundle's files in `home/user/agent` are told from those that have changed by the time at which the kernel
 * recorded their last change (`ctime`), which no program can set. The newest one of a fresh bundle is the base.
 */
export const FILES_PROGRAM = String.raw`use strict;
use warnings;
no warnings 'recursion';
use Config;
use Fcntl qw(:DEFAULT :mode);

use constant CHUNK => 256 * 1024;
use constant HEADER => 1536;           # of an entry in the archive
use constant MAX_PATH => 4000;
use constant AGENT => 'home/user/agent';
use constant PRECISION => 20_000_000;  # nanoseconds, more than the kernel's clock of files needs for a step
use constant AT_FDCWD => -100;
use constant NO_FOLLOW => 0x100;

my %PLACES = ('home/user' => $ENV{HOME}, 'tmp/tool_output' => ($ENV{TMPDIR} // '/tmp') . '/tool_output');
my %CALLS = (
    x86_64 => { statx => 332, clock_gettime => 228, utimensat => 280 },
    aarch64 => { statx => 291, clock_gettime => 113, utimensat => 88 },
);
# Perl itself knows whole seconds only, and so does a snapshot where these calls are not known.
my ($architecture) = $Config{archname} =~ /^(\w+)-linux/;
my $calls = $CALLS{ $architecture // '' };

my ($output, $left_out, $first_left, $entries, %sound) = ('', 0, '');
my ($mode, @arguments) = @ARGV;
binmode STDIN;
binmode STDOUT;
umask 022;
eval { $mode eq 'mark' ? mark() : $mode eq 'take' ? take(@arguments) : put(@arguments); 1 }
    or record('problem', ref $@ ? @{$@} : ('failed', $@ =~ s/ at -e line.*//sr));
flush();

sub mark {
    my $base = newest_of_bundle();
    record('mark', $base, measured($base)->{state});
}

sub take {
    my ($base, $state, $max_bytes) = @_;
    my $now = measured($base);
    return record('same') if $now->{state} eq $state && $state !~ /^unsure/;
    die [ 'bytes', $now->{bytes} ] if $now->{bytes} > $max_bytes;
    record('mark', $base, $now->{state});
    ($left_out, $first_left) = (0, '');
    my %linked;
    walk(sub { emit($base, \%linked, @_) });
    record('folder', 0755, 0, 0, AGENT, '/') if $base && !look(place(AGENT));
    record('end', $left_out, $first_left);
}

# Looks at all files. What a file has become within the clock's precision after a look does not show: then it looks again.
sub measured {
    my ($base) = @_;
    my ($newest, $count, $bytes, $is_unsure);
    for (1 .. 4) {
        my $begin = now();
        my %linked;
        ($newest, $count, $bytes) = (0, 0, 0);
        walk(sub {
            my ($path, $found) = @_;
            $newest = $found->{changed} if $found->{changed} > $newest;
            $count++;
            return if is_of_bundle($base, $path, $found);
            $bytes += HEADER;
            return if !S_ISREG($found->{mode}) || $found->{links} > 1 && $linked{ $found->{id} }++;
            $bytes += $found->{size} + -$found->{size} % 512;
        });
        $is_unsure = $newest > $begin - PRECISION or last;
        select undef, undef, undef, 0.025;
    }
    return { state => join(':', $is_unsure ? 'unsure' : 'sure', $newest, $count, $bytes), bytes => $bytes };
}

sub newest_of_bundle {
    my $newest = 0;
    my $found = look(place(AGENT)) or return 0;
    $entries = 0;
    descend(sub { $newest = $_[1]{changed} if $_[1]{changed} > $newest }, AGENT, $found);
    # A change that follows must have a later time.
    select undef, undef, undef, 0.025 if $newest > now() - PRECISION;
    return $newest;
}

sub is_of_bundle { my ($base, $path, $found) = @_; return is_in_agent($path) && $found->{changed} <= $base }
sub is_in_agent { return $_[0] eq AGENT || index($_[0], AGENT . '/') == 0 }

# Calls $visit with path, status and names of each file and folder, parents first.
sub walk {
    my ($visit) = @_;
    $entries = 0;
    for my $root (sort keys %PLACES) {
        my $found = look(place($root));
        descend($visit, $root, $found) if $found && S_ISDIR($found->{mode});
    }
}

sub descend {
    my ($visit, $path, $found) = @_;
    my @names;
    my $is_listed = 1;
    if (S_ISDIR($found->{mode})) {
        if (opendir my $folder, place($path)) {
            while (defined(my $name = readdir $folder)) {
                next if $name eq '.' || $name eq '..';
                die [ 'entries', $entries ] if ++$entries > ${MAX_ENTRIES};
                push @names, $name;
            }
        }
        else {
            $is_listed = 0;
            leave_out($path) if !$!{ENOENT};
        }
    }
    $visit->($path, $found, $is_listed ? \@names : undef);
    for my $name (@names) {
        my $child = "$path/$name";
        my $next = length $child > MAX_PATH ? undef : look(place($child));
        if ($next) { descend($visit, $child, $next) }
        elsif (length $child > MAX_PATH || !$!{ENOENT}) { leave_out($child) }
    }
}

sub leave_out { $first_left = $_[0] if !$left_out++ }

sub emit {
    my ($base, $linked, $path, $found, $names) = @_;
    return if $path eq 'home/user' || is_of_bundle($base, $path, $found);
    my $kind = $found->{mode};
    my @facts = ($kind & 0777, $found->{modified});
    if (S_ISDIR($kind)) { record('folder', @facts, 0, $path, $names && is_in_agent($path) ? '/' . join('/', @$names) : '') }
    elsif (S_ISLNK($kind)) {
        my $target = readlink place($path);
        defined $target ? record('link', @facts, 0, $path, $target) : leave_out($path);
    }
    elsif (S_ISREG($kind)) {
        my $first = $found->{links} > 1 ? $linked->{ $found->{id} } : undef;
        return record('hard link', @facts, 0, $path, $first) if defined $first;
        emit_file($path, @facts) or return leave_out($path);
        $linked->{ $found->{id} } = $path if $found->{links} > 1;
    }
}

# Another program may have put anything in the place of the file, or change it meanwhile.
sub emit_file {
    my ($path, @facts) = @_;
    sysopen my $file, place($path), O_RDONLY | O_NONBLOCK | O_NOFOLLOW or return;
    return if !-f $file;
    my $rest = -s _;
    record('file', @facts, $rest, $path);
    while ($rest > 0) {
        my $count = sysread $file, my $data, $rest < CHUNK ? $rest : CHUNK;
        if (!$count) { $data = "\0" x ($rest < CHUNK ? $rest : CHUNK) }
        $rest -= length $data;
        out($data);
    }
    return 1;
}

sub put {
    my ($base, $is_first, $is_last, $is_other) = @_;
    $base = newest_of_bundle() if $is_first;
    while (defined(my $length = in(4, 1))) {
        my ($type, $mode, $time, $size, $path, $more, $goes_on) = split /\0/, in(unpack 'N', $length), -1;
        my $at = place($path);
        if ($is_other && is_in_agent($path)) {
            my $found = look($at);
            if ($found && is_of_bundle($base, $path, $found)) { skip($size); next }
            $more = '' if $type eq 'folder';
        }
        my $step = {
            folder => sub { put_folder($path, $at, $more) },
            times => sub { complete($at, $mode, $time) if is_folder($at) },
            file => sub {
                make_room($path, $at);
                sysopen my $file, $at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600 or fail($path);
                fill($path, $file, $size);
            },
            more => sub {
                check_parents($path);
                sysopen my $file, $at, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOFOLLOW or fail($path);
                fill($path, $file, $size);
            },
            'link' => sub { make_room($path, $at); symlink $more, $at or fail($path) },
            'hard link' => sub {
                make_room($path, $at);
                check_parents($more);
                my $target = look(place($more));
                $target && S_ISREG($target->{mode}) && link place($more), $at or fail($path);
            },
        }->{$type};
        $step->();
        complete($at, $mode, $time) if $type =~ /file|more/ && !$goes_on;
        set_time($at, $time) if $type eq 'link';
    }
    record('mark', $base, $is_last && eval { measured($base)->{state} } || 'unsure');
}

sub fail { die [ 'written', printable($_[0]) . ': ' . ($_[1] // $!) ] }
sub printable { return $_[0] =~ s/[^\x20-\x7e\x80-\xff]/?/gr }

sub is_folder { my $found = look($_[0]); return $found && S_ISDIR($found->{mode}) }

# Nothing is ever written below a link.
sub check_parents {
    my ($path) = @_;
    my ($root) = grep { index($path, "$_/") == 0 } keys %PLACES or return;
    my $folder = $root;
    for my $name ('', split m{/}, substr $path =~ s{/[^/]*\z}{}r, length $root) {
        $folder .= "/$name" if length $name;
        next if $sound{$folder};
        my $at = place($folder);
        my $found = look($at);
        mkdir $at, 0755 or fail($folder) if !$found;
        fail($path, "$folder is not a folder") if $found && !S_ISDIR($found->{mode});
        chmod 0700 | $found->{mode} & 0777, $at if $found && ($found->{mode} & 0700) != 0700;
        $sound{$folder} = 1;
    }
}

sub make_room {
    my ($path, $at) = @_;
    check_parents($path);
    remove($path, $at) if look($at);
}

sub remove {
    my ($path, $at) = @_;
    %sound = ();
    if (is_folder($at)) {
        chmod 0700, $at;
        if (opendir my $folder, $at) {
            my @names = grep { $_ ne '.' && $_ ne '..' } readdir $folder;
            closedir $folder;
            remove("$path/$_", "$at/$_") for @names;
        }
        rmdir $at or fail($path);
    }
    else { unlink $at or fail($path) }
}

sub put_folder {
    my ($path, $at, $names) = @_;
    check_parents($path);
    my $found = look($at);
    if ($found && !S_ISDIR($found->{mode})) { remove($path, $at); undef $found }
    if (!$found) { mkdir $at, 0700 or fail($path); return }
    chmod 0700 | $found->{mode} & 0777, $at;
    return if !length $names;
    my %kept = map { $_ => 1 } split m{/}, $names;
    opendir my $folder, $at or fail($path);
    my @gone = grep { $_ ne '.' && $_ ne '..' && !$kept{$_} } readdir $folder;
    closedir $folder;
    remove("$path/$_", "$at/$_") for @gone;
}

sub skip {
    my ($rest) = @_;
    while ($rest > 0) { $rest -= length in($rest < CHUNK ? $rest : CHUNK) }
}

sub fill {
    my ($path, $file, $rest) = @_;
    while ($rest > 0) {
        my $data = in($rest < CHUNK ? $rest : CHUNK);
        $rest -= length $data;
        for (my $done = 0; $done < length $data;) {
            my $count = syswrite $file, $data, length($data) - $done, $done;
            fail($path) if !$count;
            $done += $count;
        }
    }
    close $file or fail($path);
}

sub complete { my ($at, $mode, $time) = @_; chmod $mode & 0777, $at; set_time($at, $time) }

sub set_time {
    my ($at, $time) = @_;
    my ($seconds, $part) = $time =~ /^(\d+)(?:\.(\d+))?/ or return;
    my $nanoseconds = substr(($part // '') . '0' x 9, 0, 9) + 0;
    return utime $seconds, $seconds, $at if !$calls && !-l $at;
    syscall $calls->{utimensat}, AT_FDCWD, $at, pack('q4', $seconds, $nanoseconds, $seconds, $nanoseconds), NO_FOLLOW if $calls;
}

# Path of an entry in this sandbox. Without isolation, home and /tmp are other folders.
sub place {
    my ($path) = @_;
    for my $root (keys %PLACES) { return $PLACES{$root} . substr $path, length $root if "$path/" =~ m{^\Q$root\E/} }
    die [ 'failed', 'an entry has a wrong path' ];
}

# Status of a file, or nothing. Does not follow a link. Times of change are in nanoseconds.
sub look {
    my ($at) = @_;
    if (!$calls) {
        my @found = lstat $at or return;
        my ($id, $modified) = ("$found[0]:$found[1]", $found[9] > 0 ? $found[9] : 0);
        return { mode => $found[2], links => $found[3], size => $found[7], id => $id, changed => $found[10] * 1_000_000_000, modified => $modified };
    }
    my $buffer = "\0" x 256;
    return if syscall($calls->{statx}, AT_FDCWD, $at, NO_FOLLOW, 0x7ff, $buffer) < 0;
    my ($links, $mode, $inode, $size, $changed, $changed_part, $modified, $modified_part, $major, $minor) =
        unpack 'x16 L x8 S x2 Q Q x48 q L x4 q L x12 L L', $buffer;
    ($modified, $modified_part) = (0, 0) if $modified < 0;
    return {
        mode => $mode, links => $links, size => $size, id => "$major:$minor:$inode",
        changed => $changed * 1_000_000_000 + $changed_part, modified => sprintf('%d.%09d', $modified, $modified_part),
    };
}

sub now {
    return time * 1_000_000_000 if !$calls;
    my $buffer = "\0" x 16;
    syscall $calls->{clock_gettime}, 0, $buffer;
    my ($seconds, $part) = unpack 'q2', $buffer;
    return $seconds * 1_000_000_000 + $part;
}

sub record { my $text = join "\0", @_; out(pack('N', length $text) . $text) }

sub out { $output .= $_[0]; flush() if length $output >= CHUNK }

sub flush {
    while (length $output) {
        my $count = syswrite STDOUT, $output;
        exit 1 if !$count;
        substr $output, 0, $count, '';
    }
}

sub in {
    my ($length, $may_end) = @_;
    my $data = '';
    while (length $data < $length) {
        my $count = sysread STDIN, $data, $length - length $data, length $data;
        if (!$count) { return if $may_end && !length $data; die [ 'failed', 'the input ended early' ] }
    }
    return $data;
}
`;
