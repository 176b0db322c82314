import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const INIT = fileURLToPath(new URL('init.pl', import.meta.url));

/** Runs in its own pid namespace, so that a failed check would kill only this test's processes. */
const inNamespace = (script: string, ...args: string[]) =>
  spawnSync(
    'unshare',
    ['--user', '--map-root-user', '--pid', '--fork', '--mount-proc', '--kill-child', ...args, 'sh', '-c', script],
    {
      encoding: 'utf8',
    },
  );
const problem = inNamespace('true').status === 0 ? undefined : 'namespaces cannot be made here';

describe.skipIf(problem !== undefined)(`kill -1${problem ? ` (not tried: ${problem})` : ''}`, () => {
  const killAll = `perl -e 'require shift; kill_all(shift); print "killed\\n"' ${INIT}`;

  test('is refused to a process other than 1', () => {
    const { stdout, stderr } = inNamespace(`sleep 1000 & ${killAll} 'pid:[1]'; kill -0 $! && echo alive; kill $!`);
    expect(stdout).toBe('alive\n');
    expect(stderr).toMatch(
      /^init is process \d+ of pid:\[\d+\], and the launcher is in pid:\[1\]: it starts and kills nothing$/m,
    );
  });

  test("is refused to process 1 of the launcher's own namespace", () => {
    const { stdout, stderr } = inNamespace(
      `exec perl -e 'require shift; kill_all(readlink "/proc/self/ns/pid"); print "killed\\n"' ${INIT}`,
    );
    expect(stdout).toBe('');
    expect(stderr).toContain('init is process 1 of');
  });

  test('is allowed to process 1 of another namespace', () => {
    const { stdout } = inNamespace(`sleep 1000 & exec ${killAll} 'pid:[1]'`);
    expect(stdout).toBe('killed\n');
  });
});

test.each([
  ['close_range', ''],
  ['the list of open descriptors, where close_range is refused', 'our $CLOSE_RANGE = 9999;'],
])('all descriptors but the wanted are closed, by %s', (_, prepare) => {
  const program = `require shift; ${prepare}
    open my $kept, '<', '/dev/null'; open my $known, '<', '/dev/null';
    close_all_but(fileno $kept, 40);
    opendir my $folder, '/proc/self/fd'; print join ' ', sort { $a <=> $b } grep { /\\d/ && -e "/proc/self/fd/$_" } readdir $folder;
    print ' kept ', fileno $kept`;
  const { stdout, stderr } = spawnSync(
    'bash',
    ['-c', 'exec perl -e "$0" "$1" 29</usr 40</usr 300</usr', program, INIT],
    {
      encoding: 'utf8',
    },
  );
  expect(stderr).toBe('');
  const [open, kept] = stdout.split(' kept ');
  // The handle of the listed folder has the lowest free number.
  const numbers = open!.split(' ').map(Number);
  expect(numbers).toEqual(expect.arrayContaining([0, 1, 2, Number(kept), 40]));
  expect(numbers).toHaveLength(6);
  expect(numbers).not.toContain(29);
  expect(numbers).not.toContain(300);
});
