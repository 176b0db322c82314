import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Sandbox, SandboxSpec } from '#core/ports/sandbox.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { createLocalSandbox } from '#local/sandbox/local-sandbox.ts';
import { testWhere } from '#test/helpers/test-where.ts';
import { zip } from '#test/helpers/zip.ts';
import { python, ran, sandboxConformance, specOf, tarOf } from './sandbox.ts';
import { standbyConformance } from './standby.ts';

const isRoot = process.getuid?.() === 0;

/** Returns the command lines of this host's processes, including sandboxed ones. */
function commandLines(): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ');
      } catch {
        return '';
      }
    });
}

/** Every test of the sandbox of this machine, with one of the programs that make it. */
export async function localSandboxSuite(kind: 'bubblewrap' | 'unshare'): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'sandbox-test-'));
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  const folder = join(root, kind);
  const blobs = new FolderBlobs(join(folder, 'blobs'));
  const create = (more: Partial<Parameters<typeof createLocalSandbox>[0]> = {}) =>
    createLocalSandbox({ cacheFolder: join(folder, 'cache'), blobs, kind, prestart: 2, ...more });
  const tried = await create();
  const { problem } = await tried.status();
  await tried.close();

  describe.skipIf(problem !== undefined)(
    `${kind}${problem === undefined ? '' : ` cannot work here: ${problem}`}`,
    () => {
      sandboxConformance(async () => ({ sandbox: await create(), blobs }));
      standbyConformance((prestart) => create({ prestart, cacheFolder: join(folder, `cache-${prestart}`) }), {
        blobs,
        isRoot,
      });

      describe('on this host', () => {
        let sandbox: Sandbox;
        let service: Server;
        let servicePort: number;
        const abstractName = `\0platform-test-${process.pid}-${kind}`;
        let abstract: Server;

        beforeAll(async () => {
          const answering = () => createServer((socket) => socket.end('host service\n')).on('error', () => {});
          service = answering().listen(0, '127.0.0.1');
          abstract = answering().listen(abstractName);
          await Promise.all([once(service, 'listening'), once(abstract, 'listening')]);
          servicePort = (service.address() as { port: number }).port;
          sandbox = await create();
        });

        afterAll(async () => {
          await sandbox?.close();
          service?.close();
          abstract?.close();
        });

        const inSession = async <T>(
          spec: Partial<SandboxSpec>,
          work: (session: Awaited<ReturnType<Sandbox['open']>>) => Promise<T>,
        ) => {
          const session = await sandbox.open(specOf(spec));
          try {
            return await work(session);
          } finally {
            await session.close();
          }
        };

        test('loopback services and abstract sockets cannot be reached', async () => {
          const program = `import socket
for family, address in ((socket.AF_INET, ('127.0.0.1', ${servicePort})), (socket.AF_UNIX, '\\0${abstractName.slice(1)}')):
    s = socket.socket(family)
    try: s.connect(address); print(s.recv(100))
    except OSError as e: print('refused')
`;
          const { out } = await inSession({ egress: 'open' }, (session) => python(session, program));
          expect(out).toBe('refused\nrefused\n');
        });

        test('files of the platform cannot be seen', async () => {
          const secret = join(folder, 'platform.sqlite');
          writeFileSync(secret, 'secret data', { mode: 0o644 });
          const command = `cat ${secret} /proc/1/root${secret} /proc/*/root${secret} /proc/*/cwd/* 2>/dev/null; ls ${root} ${join(folder, 'cache')} 2>/dev/null | cat`;
          expect((await inSession({}, (session) => ran(session, command))).out).not.toMatch(/secret data|expanded/);
        });

        // Bubblewrap can only bind (docs/interface/sandbox.md#what-stays-visible).
        testWhere(kind !== 'bubblewrap')('paths of the host do not show in the list of mounts', async () => {
          const [bundle, layer] = ['bundles/mounts.zip', 'layers/mounts.tar.gz'];
          await blobs.put(bundle, zip([{ name: 'a.txt', content: 'in the bundle\n' }]));
          await blobs.put(layer, tarOf({ 'python/b.txt': 'in the layer\n' }));
          const command =
            'cat a.txt /layer/python/b.txt; cat /proc/self/mountinfo /proc/self/mounts /proc/self/mountstats';
          const { out } = await inSession({ bundle, layer }, (session) => ran(session, command));
          expect(out).toMatch(/^in the bundle\nin the layer\n\d+ /);
          const paths = [root, fileURLToPath(new URL('../..', import.meta.url)), dirname(process.execPath)];
          expect(out.split('\n').filter((line) => paths.some((path) => line.includes(path)))).toEqual([]);
        });

        describe('the unpacked bundle', () => {
          const bundle = 'bundles/unpacked.zip';
          const content = join(folder, 'cache/expanded/bundle-unpacked.zip/content');
          const CHANGE = `echo changed | tee main.py > new; rm -r data; mkdir data; touch -d @5 .; cat main.py; ls -A . data`;
          const CHANGED = 'changed\n.:\ndata\nmain.py\nnew\n\ndata:\n';
          beforeAll(() =>
            blobs.put(
              bundle,
              zip([
                { name: 'main.py', content: 'main\n' },
                { name: 'data/a.txt', content: 'a\n' },
              ]),
            ),
          );
          const onHost = () =>
            spawnSync('find', [content, '-printf', '%P %y %m %U %T@ %C@ %n\\n'], { encoding: 'utf8' }).stdout +
            readFileSync(join(content, 'main.py'), 'utf8');

          test('is not touched by what programs do in their working folder', async () => {
            await inSession({ bundle }, (session) => ran(session, 'true'));
            const before = onHost();
            expect(before).toContain('data/a.txt');
            for (let time = 0; time < 2; time++) {
              const { out } = await inSession({ bundle }, (session) => ran(session, CHANGE));
              expect(out).toBe(CHANGED);
            }
            expect(onHost()).toBe(before);
          });

          // Bubblewrap always copies. An overlay cannot copy up the files of another user.
          test.skipIf(!isRoot)('is copied where an overlay of it could not be written to', async () => {
            const ownCache = join(folder, 'cache4');
            const own = await create({ prestart: 0, cacheFolder: ownCache });
            const unpacked = join(ownCache, 'expanded');
            const [mounts, other] = [`grep -c ' /home/user/agent .*overlay' /proc/self/mountinfo`, { bundle }];
            const first = await own.open(specOf(other));
            expect((await ran(first, mounts)).out).toBe(kind === 'unshare' ? '1\n' : '0\n');
            await first.close();
            spawnSync('chown', ['-R', '0:0', unpacked]);
            // The copy takes nothing from the space that the run has.
            const session = await own.open(specOf({ bundle, limits: { ...specOf().limits, diskBytes: 8192 } }));
            const { out } = await ran(
              session,
              `${mounts}; stat -c %U main.py data/a.txt; head -c 8192 /dev/zero > x && rm x; ${CHANGE}`,
            );
            await session.close();
            await own.close();
            expect(out).toBe(`0\nuser\nuser\n${CHANGED}`);
          });
        });

        test('the SDK for Python is compiled: a program cannot keep what it compiles', async () => {
          const session = await sandbox.open(specOf());
          const program = `import agent_platform, os; print(os.path.exists(agent_platform.__spec__.cached))`;
          expect((await ran(session, `python3 -c '${program}'`)).out).toBe('True\n');
          await session.close();
        });

        test('processes of the host cannot be seen or signalled', async () => {
          const victim = spawn('sleep', ['1000']);
          const command = `for p in $(seq 2 400) ${victim.pid} ${process.pid}; do kill -9 $p 2>/dev/null && [ $p != $$ ] && echo killed $p; done; cat /proc/[0-9]*/cmdline`;
          const { out } = await inSession({}, (session) => ran(session, command));
          expect(out).not.toContain('sleep 1000');
          expect(victim.exitCode).toBe(null);
          expect(victim.signalCode).toBe(null);
          victim.kill();
        });

        test.skipIf(!isRoot)('processes run under a host uid of their own, never root', async () => {
          const uids = await Promise.all(
            ['4141', '4142'].map((seconds) =>
              inSession({}, async (session) => {
                await ran(session, `sleep ${seconds} & `);
                const pid = await vi.waitUntil(
                  () =>
                    readdirSync('/proc').find(
                      (name) => /^\d+$/.test(name) && commandLineOf(name) === `sleep ${seconds} `,
                    ),
                  { timeout: 20_000 },
                );
                return /^Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)$/m
                  .exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!
                  .slice(1);
              }),
            ),
          );
          for (const own of uids) expect(new Set(own).size).toBe(1);
          expect(Number(uids[0]![0])).toBeGreaterThan(1_000_000_000);
          expect(uids[0]![0]).not.toBe(uids[1]![0]);
        });

        test('nothing is left after close: no process, no file', async () => {
          const before = new Set(readdirSync(tmpdir()));
          const mark = `61${process.pid}`;
          await inSession({}, async (session) => {
            await ran(session, `(setsid setsid sh -c 'trap "" TERM HUP; sleep ${mark}' &); echo x > /tmp/${mark}`);
            const isAsleep = () => commandLines().some((line) => line.startsWith(`sleep ${mark}`));
            await expect.poll(isAsleep).toBe(true);
          });
          expect(commandLines().some((line) => line.includes(`sleep ${mark}`))).toBe(false);
          expect(readdirSync(tmpdir()).filter((name) => name.includes(mark) && !before.has(name))).toEqual([]);
        });

        test('a started sandbox is used once', async () => {
          const { out } = await inSession({ egress: 'none' }, (session) => ran(session, 'echo x > ~/x; hostname'));
          expect(out).toBe('sandbox\n');
          for (let turn = 0; turn < 4; turn++) {
            expect((await inSession({}, (session) => ran(session, 'ls -A ~'))).out).toBe('');
          }
        });

        test('only the gateway can be reached, from Python, curl and Node, and not with egress none', async () => {
          const { createServer: createHttpServer } = await import('node:http');
          const web = createHttpServer((_, response) => response.end('gateway\n')).listen(0, '127.0.0.1');
          await once(web, 'listening');
          const gateway = { host: '127.0.0.1', port: (web.address() as { port: number }).port };
          const own = await create({ gateway });
          const url = `http://127.0.0.1:${gateway.port}/`;
          const command = `python3 -c "import urllib.request as u; print(u.urlopen('${url}').read().decode(), end='')"
          node -e "fetch('${url}').then((r) => r.text()).then((t) => process.stdout.write(t))"
          command -v curl > /dev/null && curl -s ${url} || echo gateway`;
          const outs: string[] = [];
          for (const egress of ['open', { allow: [] }, 'none'] as const) {
            const session = await own.open(specOf({ egress }));
            outs.push(
              (
                await ran(
                  session,
                  egress === 'none' ? `(exec 3<>/dev/tcp/127.0.0.1/${gateway.port}) || echo no` : command,
                )
              ).out,
            );
          }
          await own.close();
          web.close();
          expect(outs).toEqual(['gateway\ngateway\ngateway\n', 'gateway\ngateway\ngateway\n', 'no\n']);
        });

        test('clients find targets by name at their usual port, from Python, Node and bash, and nothing stays open', async () => {
          const open = new Set<Socket>();
          const server = createServer((socket) => {
            open.add(socket.on('close', () => open.delete(socket)).on('error', () => {}));
            socket.on('data', (data) => socket.write(`+${String(data).trim()}\r\n`));
          }).listen(0, '127.0.0.1');
          await once(server, 'listening');
          const { port } = server.address() as AddressInfo;
          const asked: string[] = [];
          const own = await create({
            ways: {
              resolve: async (host) => [host === 'db.example.com' ? '93.184.216.34' : '10.20.3.4'],
              connect: (address, at) => {
                asked.push(`${address}:${at}`);
                return connect(port, '127.0.0.1');
              },
            },
          });
          const low = kind === 'unshare' ? ['smtp.example.com:587'] : [];
          const targets = ['db.example.com:5432', 'db.example.com:6379', 'private.example.com:5432', ...low];
          const session = await own.open(
            specOf({ egress: 'open', egressTargets: { targets, privateRanges: ['10.20.0.0/16'] } }),
          );
          const { out, err } = await ran(
            session,
            `python3 -c "import socket; s = socket.create_connection(('db.example.com', 5432)); s.sendall(b'python'); print(s.recv(99).decode(), end='')"
            node -e "require('net').connect(6379, 'DB.example.com', function () { this.end('node') }).pipe(process.stdout)"
            exec 3<>/dev/tcp/private.example.com/5432; echo bash >&3; head -1 <&3
            ${low.length > 0 ? 'exec 4<>/dev/tcp/smtp.example.com/587; echo mail >&4; head -1 <&4' : ''}
            (exec 5<>/dev/tcp/smtp.example.com/25) 2>/dev/null || echo closed
            sleep 60 <&3 & echo end`,
            { endsAll: true },
          );
          const mail = low.map(() => '+mail\r\n').join('');
          expect(`${out}${err}`).toBe(`+python\r\n+node\r\n+bash\r\n${mail}closed\nend\n`);
          expect(asked).toEqual([
            ...['93.184.216.34:5432', '93.184.216.34:6379', '10.20.3.4:5432'],
            ...low.map(() => '10.20.3.4:587'),
          ]);
          await session.close();
          await expect.poll(() => open.size).toBe(0);
          if (kind === 'bubblewrap') {
            const egressTargets = { targets: ['smtp.example.com:587'], privateRanges: [] };
            await expect(own.open(specOf({ egress: 'open', egressTargets }))).rejects.toMatchObject({
              code: 'SANDBOX_UNAVAILABLE',
              message: expect.stringContaining('smtp.example.com:587'),
            });
          }
          await own.close();
          server.close();
        });

        test('sandboxes die with a killed platform process, and the next start removes their files', async () => {
          const mark = `62${process.pid}${kind === 'unshare' ? 1 : 2}`;
          const program = `
          import { createLocalSandbox } from ${JSON.stringify(fileURLToPath(new URL('../../local/sandbox/local-sandbox.ts', import.meta.url)))};
          const sandbox = await createLocalSandbox({ cacheFolder: ${JSON.stringify(join(folder, 'cache2'))}, blobs: {}, kind: '${kind}' });
          const session = await sandbox.open(${JSON.stringify(specOf())});
          for await (const event of session.exec({ command: "trap '' TERM HUP; setsid sleep ${mark} & echo on; sleep ${mark}", timeoutMs: 60000 })) console.log(event.type);
        `;
          const platform = spawn(process.execPath, ['--input-type=module', '-e', program], {
            stdio: ['ignore', 'pipe', 'inherit'],
          });
          await once(platform.stdout!, 'data');
          const isThere = () =>
            commandLines().some((line) => line.includes(`sleep ${mark}`) && !line.includes('import'));
          expect(isThere()).toBe(true);
          platform.kill('SIGKILL');
          await expect.poll(isThere, { interval: 20 }).toBe(false);
          const scratch = () =>
            readdirSync(tmpdir()).filter((name) => name.startsWith(`platform-sandbox-${platform.pid}-`));
          await expect.poll(scratch, { interval: 20 }).toEqual([]);
        });

        test('nothing that the platform was started with is open in runs, installations and tools', () => {
          // 251 is past the descriptors that Node itself closes for its children.
          const program = `
          import { createLocalSandbox } from ${JSON.stringify(fileURLToPath(new URL('../../local/sandbox/local-sandbox.ts', import.meta.url)))};
          import { execToEnd } from ${JSON.stringify(fileURLToPath(new URL('../../core/ports/sandbox.ts', import.meta.url)))};
          const sandbox = await createLocalSandbox({ cacheFolder: ${JSON.stringify(join(folder, 'cache2'))}, blobs: {}, kind: '${kind}' });
          const says = [];
          for (const purpose of ['run', 'install']) {
            const session = await sandbox.open({ ...${JSON.stringify(specOf())}, purpose });
            const list = 'import os\\nfor n in range(3, 1024):\\n  try: os.fchdir(n); print(n, os.listdir())\\n  except OSError: pass\\nprint(len(os.listdir("/proc/self/fd")))';
            for (const cwd of ['/home/user', '/tmp']) {
              const { stdout } = await execToEnd(session, { command: 'python3 -', cwd, stdin: Buffer.from(list), timeoutMs: 20000 });
              says.push(Buffer.from(stdout).toString());
            }
            for (const number of [29, 251]) says.push(await session.listFiles('/proc/self/fd/' + number).catch(({ code }) => code));
            await session.close();
          }
          console.log(JSON.stringify(says));
          await sandbox.close();
        `;
          const { stdout, stderr } = spawnSync(
            'bash',
            ['-c', 'exec "$0" --input-type=module -e "$1" 29</usr/share 251</etc', process.execPath, program],
            { encoding: 'utf8' },
          );
          expect(stderr).toBe('');
          // The fourth descriptor is the directory listing itself.
          const each = ['4\n', '4\n', 'SANDBOX_FILE', 'SANDBOX_FILE'];
          expect(JSON.parse(stdout)).toEqual([...each, ...each]);
        });

        test('the status says who holds the limits, and where or why', async () => {
          const { limits } = await sandbox.status();
          const detail = limits!.by === 'kernel' ? /^a cgroup each in \// : /^a watcher each, because ./;
          expect(limits!.detail).toMatch(detail);
        });

        // The effect is measured in bench/sandboxes.ts.
        test.skipIf(!isRoot)('a run of many busy sessions weighs about as much as one of two', async () => {
          const { by } = (await sandbox.status()).limits!;
          const mark = `busy-${process.pid}-${kind}`;
          // The scheduler might treat each of its sessions as a separate user.
          const program = `import os, sys
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        os.setsid()
        while True: pass
os.wait()`;
          const start = async (processes: number) => {
            const session = await sandbox.open(specOf({ limits: { ...specOf().limits, processes: 64 } }));
            await session.writeFile('busy.py', Buffer.from(program));
            await ran(session, `python3 busy.py ${mark} ${processes} > /dev/null 2>&1 &`);
            return session;
          };
          const shares = () =>
            [40, 2].map((processes) => {
              const busy = readdirSync('/proc').filter(
                (pid) => commandLineOf(pid) === `python3 busy.py ${mark} ${processes} ` && stateOf(pid).state === 'R',
              );
              const weight =
                by === 'kernel'
                  ? // The kernel shares between groups first: each sandbox has one, of the same weight.
                    new Set(busy.map((pid) => readFileSync(`/proc/${pid}/cgroup`, 'utf8'))).size
                  : // Each nice value weighs 1.25 times the next.
                    busy.reduce((sum, pid) => sum + 1.25 ** (3 - stateOf(pid).nice), 0);
              return { busy: busy.length, isOne: weight > 0.5 && weight < 1.5 };
            });
          const sessions = await Promise.all([start(40), start(2)]);
          try {
            // The busy processes delay the watcher, which sets the nice values.
            await expect.poll(shares, { timeout: 20_000 }).toEqual([40, 2].map((busy) => ({ busy, isOne: true })));
          } finally {
            await Promise.all(sessions.map((session) => session.close()));
          }
        });

        test('a bundle that several sessions ask for at once is expanded once', async () => {
          let reads = 0;
          const counting = Object.assign(Object.create(blobs), {
            get(key: string) {
              reads++;
              return blobs.get(key);
            },
          });
          const own = await create({ blobs: counting, cacheFolder: join(folder, 'cache3') });
          const bundle = 'bundles/once.zip';
          await blobs.put(bundle, zip([{ name: 'a.txt', content: 'a' }]));
          const outs = await Promise.all(
            Array.from({ length: 5 }, async () => (await ran(await own.open(specOf({ bundle })), 'cat a.txt')).out),
          );
          await own.close();
          expect(outs).toEqual(['a', 'a', 'a', 'a', 'a']);
          expect(reads).toBe(1);
        });

        const unprivileged = unprivilegedProblem();
        test.skipIf(unprivileged !== undefined)(
          `it works for an ordinary user${unprivileged === undefined ? '' : ` (not tried: ${unprivileged})`}`,
          () => {
            const place = mkdtempSync(join(tmpdir(), 'sandbox-user-'));
            const program = `
            import { createLocalSandbox } from ${JSON.stringify(fileURLToPath(new URL('../../local/sandbox/local-sandbox.ts', import.meta.url)))};
            import { execToEnd } from ${JSON.stringify(fileURLToPath(new URL('../../core/ports/sandbox.ts', import.meta.url)))};
            const blobs = { get: async () => Buffer.from('${Buffer.from(zip([{ name: 'data/a.txt', content: 'a' }])).toString('base64')}', 'base64') };
            const sandbox = await createLocalSandbox({ cacheFolder: ${JSON.stringify(join(place, 'cache'))}, blobs, kind: '${kind}' });
            const session = await sandbox.open(${JSON.stringify(specOf({ bundle: 'bundles/a.zip', limits: { ...specOf().limits, memoryBytes: 100 * 1024 * 1024 } }))});
            const run = async (command) => { const { stdout, exit } = await execToEnd(session, { command, timeoutMs: 20000 }); return [Buffer.from(stdout).toString(), exit.reason]; };
            await session.writeFile('f', Buffer.from('x'));
            console.log(JSON.stringify([
              (await sandbox.status()).kind,
              await run('rm -r data && mkdir data && echo b > data/b.txt && ls -A . data; grep -c " /home/user/agent .*overlay" /proc/self/mountinfo'),
              await run('id -u; cat ../f; cat /etc/shadow /proc/1/environ; grep CapEff /proc/self/status; unshare -Ur id'),
              await run('perl -e \\'fork; fork; $x = "x" x 60_000_000; sleep 100\\''),
              await run('echo on'),
            ]));
            await session.close(); await sandbox.close();
          `;
            spawnSync('chown', ['65534:65534', place]);
            const { stdout, stderr } = spawnSync(
              'setpriv',
              [
                '--reuid=65534',
                '--regid=65534',
                '--clear-groups',
                process.execPath,
                '--input-type=module',
                '-e',
                program,
              ],
              { encoding: 'utf8', cwd: place, env: { PATH: '/usr/bin:/bin' } },
            );
            rmSync(place, { recursive: true });
            expect(stderr).toBe('');
            expect(JSON.parse(stdout)).toEqual([
              kind,
              [`.:\ndata\n\ndata:\nb.txt\n${kind === 'unshare' ? 1 : 0}\n`, 'exited'],
              ['1000\nxCapEff:\t0000000000000000\n', 'exited'],
              ['', 'memory_limit'],
              ['on\n', 'exited'],
            ]);
          },
        );
      });
    },
  );
}

function commandLineOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

/** Returns why the suite cannot switch to an ordinary user and start a platform, if so. */
function unprivilegedProblem(): string | undefined {
  if (!isRoot) return 'this is one already, see the other tests';
  const user = ['--reuid=65534', '--regid=65534', '--clear-groups'];
  const files = [fileURLToPath(import.meta.url), process.execPath];
  const probe = spawnSync('setpriv', [...user, 'sh', '-c', 'test -r "$1" && test -x "$2"', 'sh', ...files]);
  if (probe.error) return 'setpriv was not found';
  return probe.status === 0 ? undefined : 'this checkout is not readable for others';
}

/** Fields of `/proc/PID/stat` after the name in brackets. */
function stateOf(pid: string): { state?: string; nice: number } {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
    return { state: fields[0]!, nice: Number(fields[16]) };
  } catch {
    // The process has ended.
    return { nice: 0 };
  }
}
