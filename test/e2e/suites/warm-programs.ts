import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, publishCode, request, type Target } from '#test/helpers/platform.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';
import type { Languages } from '../languages.ts';

/** Keeps all that it can learn of each run, and answers with what it has kept. */
const NOSY = `import json, os, sys, time
from agent_platform import serve

kept = []

def handle(given):
    given.setdefault("name", "with a file")
    print("printed for", given.get("name"), os.environ.get("TOKEN"))
    if "sleep" in given: time.sleep(given["sleep"])
    if "exit" in given: sys.exit(given["exit"])
    if "fail" in given: raise ValueError(given["fail"])
    found = [open("/tmp/left").read()] if os.path.exists("/tmp/left") else []
    open("/tmp/left", "a").write(given["name"])
    kept.append([given["name"], os.environ["PLATFORM_REQUEST_ID"]])
    uploads = os.listdir("/tmp/uploads") if os.path.exists("/tmp/uploads") else []
    return {"kept": [name for name, _ in kept], "requests": [request for _, request in kept], "files": found, "uploads": uploads,
      "token": os.environ.get("TOKEN", "")[::-1], "session": os.environ.get("PLATFORM_SESSION_ID")}

serve(handle)
`;

/** Programs that stay for further inputs (`docs/interface/warm-programs.md`), and whom they serve. */
export function warmProgramsSuite(target: () => Target, { python: hasPython }: Languages): void {
  let author: TestUser;
  let other: TestUser;

  const publish = (name: string, more: object = {}, code = NOSY) =>
    publishCode(
      clientOf(target(), author.key),
      name,
      { 'main.py': code },
      { reuse: 'process', is_public: true, ...more },
    );
  const post = (
    name: string,
    body: object | FormData,
    { key = author.key, headers = {} }: { key?: string; headers?: Record<string, string> } = {},
  ) =>
    request(target(), 'POST', `/warm-author/${name}/run`, {
      ...{ key, headers },
      ...(body instanceof FormData ? { body } : { json: body }),
    });
  const call = async (name: string, given: object, options?: Parameters<typeof post>[2]) =>
    expectOk(await post(name, given, options)).data;
  const secret = (value: string, user = author) =>
    request(target(), 'PUT', `/workspaces/${user.workspaceId}/secrets`, {
      key: user.key,
      json: { name: 'TOKEN', value },
    });

  describe.skipIf(!hasPython)('programs that stay (skipped without python3)', () => {
    beforeAll(async () => {
      author = await target().addUser('warm-author');
      other = await target().addUser('warm-other');
    });

    test('serve the next call of the same workspace, with its own variables', async () => {
      await publish('stays');
      await call('stays/latest', { name: 'a' });
      const { kept, requests, files } = await call('stays/latest', { name: 'b' });
      expect([kept, files]).toEqual([['a', 'b'], ['a']]);
      expect(new Set(requests).size).toBe(2);
    });

    test('never serve another workspace, tenant or version, whatever they keep', async () => {
      await publish('nosy');
      const alone = { files: [], session: null };
      expect(await call('nosy/latest', { name: 'own' })).toMatchObject({ kept: ['own'], ...alone });
      expect(await call('nosy/latest', { name: 'other' }, { key: other.key })).toMatchObject({
        kept: ['other'],
        ...alone,
      });
      for (const tenant of ['one', 'two']) {
        const of = { headers: { 'x-platform-tenant': tenant } };
        expect(await call('nosy/latest', { name: tenant }, of)).toMatchObject({ kept: [tenant], ...alone });
        expect(await call('nosy/latest', { name: 'again' }, of)).toMatchObject({ kept: [tenant, 'again'] });
      }
      await publish('nosy', {}, `${NOSY}# 2`);
      expect(await call('nosy/v2', { name: 'new' })).toMatchObject({ kept: ['new'], ...alone });
      expect(await call('nosy/v1', { name: 'old' })).toMatchObject({ kept: ['own', 'old'] });
      expect(await call('nosy/v1', { name: 'back' }, { key: other.key })).toMatchObject({ kept: ['other', 'back'] });
    });

    test('get a secret as it is, and do not see one that has changed', async () => {
      await publish('secretive', { optional_secrets: ['TOKEN'] });
      expectOk(await secret('first-value-0123456789'));
      expect(await call('secretive/latest', { name: 'a' })).toMatchObject({
        token: '9876543210-eulav-tsrif',
        kept: ['a'],
      });
      expectOk(await secret('second-value-0123456789'));
      expect(await call('secretive/latest', { name: 'b' })).toMatchObject({
        token: '9876543210-eulav-dnoces',
        kept: ['b'],
      });
    });

    test('fail one run at a time, and each has its own log, with secrets masked', async () => {
      await publish('logs', { optional_secrets: ['TOKEN'] });
      expectOk(await secret('masked-value-0123456789'));
      await call('logs/latest', { name: 'a' });
      expectError(await post('logs/latest', { name: 'b', fail: 'no such name' }), 500, 'SANDBOX_ERROR', 'no such name');
      const { kept, requests } = await call('logs/latest', { name: 'c' });
      expect(kept).toEqual(['a', 'c']);
      const path = `/workspaces/${author.workspaceId}/runs`;
      const { runs } = expectOk(await request(target(), 'GET', `${path}?agent_name=logs`, { key: author.key }));
      expect(runs).toHaveLength(3);
      for (const { id, status } of runs) {
        const answer = await request(target(), 'GET', `${path}/${id}/logs`, { key: author.key });
        const text = JSON.stringify(expectOk(answer));
        const name = status === 'failed' ? 'b' : requests[0].includes(id.replaceAll('-', '')) ? 'a' : 'c';
        expect(text).toContain(`printed for ${name} `);
        expect(text.match(/printed for/g)).toHaveLength(1);
        expect(text).not.toContain('masked-value');
      }
    });

    test.each([
      ['ends', { exit: 0 }, 'before it answered'],
      ['fails', { exit: 3 }, 'status 3'],
    ])('one that %s fails its run, and the next run has another', async (how, given, message) => {
      const name = `program-${how}`;
      await publish(name);
      await call(`${name}/latest`, { name: 'a' });
      expectError(await post(`${name}/latest`, { name: 'b', ...given }), 500, 'SANDBOX_ERROR', message);
      expect(await call(`${name}/latest`, { name: 'c' })).toMatchObject({ kept: ['c'] });
    });

    test('a run that is cancelled, or too slow, ends its program', async () => {
      await publish('slow', { timeout_seconds: 3 });
      await call('slow/latest', { name: 'a' });
      const begun = await post('slow/latest', { name: 'b', sleep: 60 }, { headers: { prefer: 'respond-async' } });
      const { run_id } = expectOk(begun, 202);
      const path = `/workspaces/${author.workspaceId}/runs/${run_id}`;
      expectOk(await request(target(), 'POST', `${path}/cancel`, { key: author.key }));
      expect(await call('slow/latest', { name: 'c' })).toMatchObject({ kept: ['c'] });
      expectError(await post('slow/latest', { name: 'd', sleep: 60 }), 504, 'TIMEOUT', 'still running at its deadline');
      expect(await call('slow/latest', { name: 'e' })).toMatchObject({ kept: ['e'] });
    });

    test('a program that answers no input is told why', async () => {
      await publish('silent', { timeout_seconds: 2 }, 'import sys\nsys.stdin.read()\n');
      const answer = await post('silent/latest', { name: 'a' });
      expectError(answer, 504, 'TIMEOUT', 'still running');
      expect(answer.body.error.hint).toContain('serve() of the SDK');
    });

    test('a run with files has a sandbox of its own', async () => {
      await publish('files');
      await call('files/latest', { name: 'a' });
      const form = new FormData();
      form.set('file', new Blob(['content']), 'note.txt');
      expect(await call('files/latest', form)).toMatchObject({
        kept: ['with a file'],
        files: [],
        uploads: ['0_note.txt'],
      });
      expect(await call('files/latest', { name: 'c' })).toMatchObject({ kept: ['a', 'c'], uploads: [] });
    });
  });

  test.each([
    [{ reuse: 'thread' }, 'must be "process", or an object'],
    [{ reuse: { mode: 'process', idle_seconds: 0 } }, 'idle_seconds'],
    [{ reuse: { mode: 'process', concurrency: 1000 } }, 'concurrency'],
    [{ reuse: 'process', durable: true }, 'must be left out here: the program of a durable run'],
    [{ reuse: 'process', workspace: true }, 'must be left out here: with "workspace"'],
    [{ reuse: 'process', run_mode: 'always_on' }, 'must be left out here: only programs'],
    [{ reuse: 'process', type: 'prompt', prompt: 'x', runtime: undefined }, 'must be left out here: only programs'],
  ])('%j is refused', async (members, message) => {
    const user = await target().addUser(`warm-bad-${crypto.randomUUID().slice(0, 8)}`);
    const body = {
      name: 'bad',
      type: 'tool',
      description: 'x',
      required_secrets: [],
      runtime: { command: 'true' },
      ...members,
    };
    const answer = await request(target(), 'POST', '/agents', { key: user.key, json: body });
    expectError(answer, 400, 'INVALID_INPUT', 'reuse');
    expect(JSON.stringify(answer.body)).toContain(message.replaceAll('"', '\\"'));
  });
}
