import { type ClientRequest, request as httpRequest } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '#core/api/client.ts';
import { type Answer, clientOf, publishCode, request, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk, ISO_TIME } from '../expect.ts';
import type { Languages } from '../languages.ts';

/** Test program controlled by its input, so that most cases share one agent. It exists in two languages. */
const PYTHON = `
import json, os, signal, sys, time
d = json.load(sys.stdin)
mode = d.get("mode")
if mode == "env":
    print(json.dumps({"env": dict(os.environ), "cwd": os.getcwd()}))
elif mode == "print":
    sys.stderr.write(d.get("stderr", ""))
    sys.stdout.write(d.get("stdout", ""))
    sys.exit(d.get("exit", 0))
elif mode == "files":
    print(json.dumps([{"path": f["path"], "text": open(f["path"]).read()} for f in d["files"]]))
elif mode == "ignore-term":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
elif mode == "sleep":
    time.sleep(d["seconds"])
    print('{"slept": true}')
elif mode == "fork":
    if os.fork() == 0:
        time.sleep(600)
    print('{"forked": true}')
elif mode == "disk":
    try:
        for n in range(100):
            open("/tmp/fill-%d" % n, "wb").write(b"x" * 4 * 1024 * 1024)
        print('{"full": false}')
    except OSError as e:
        print(json.dumps({"full": True, "files": n}))
elif mode == "memory":
    hog = []
    while True:
        hog.append(bytearray(8 * 1024 * 1024))
elif mode == "flood":
    block = "x" * 65536
    while True:
        sys.stdout.write(block)
elif mode == "secrets":
    v = os.environ["PEM"]
    sys.stderr.write(v + "\\n" + json.dumps(v) + "\\n")
    for line in v.split("\\n"):
        sys.stderr.write("> " + line + "\\n")
    if d.get("fail"):
        print(json.dumps({"error": "token " + os.environ["TOKEN"] + " is wrong"}))
        sys.exit(1)
    print(json.dumps({"pem": v, "token": "<" + os.environ["TOKEN"] + ">", os.environ["TOKEN"]: 1, "optional": os.environ.get("OPTIONAL"), "undeclared": os.environ.get("UNDECLARED")}))
else:
    print(json.dumps({"got": d}))
`;
const JAVASCRIPT = `
const d = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const { mode } = d;
if (mode === 'env') console.log(JSON.stringify({ env: process.env, cwd: process.cwd() }));
else if (mode === 'print') {
  process.stderr.write(d.stderr ?? '');
  process.stdout.write(d.stdout ?? '');
  process.exitCode = d.exit ?? 0;
} else if (mode === 'files') {
  console.log(JSON.stringify(d.files.map(({ path }) => ({ path, text: require('fs').readFileSync(path, 'utf8') }))));
} else if (mode === 'ignore-term') {
  process.on('SIGTERM', () => {});
  setTimeout(() => {}, 600_000);
} else if (mode === 'sleep') setTimeout(() => console.log('{"slept": true}'), d.seconds * 1000);
else if (mode === 'fork') {
  require('child_process').spawn('sleep', ['600'], { detached: true, stdio: 'ignore' }).unref();
  console.log('{"forked": true}');
} else if (mode === 'disk') {
  let n = 0;
  try {
    for (; n < 100; n++) require('fs').writeFileSync('/tmp/fill-' + n, Buffer.alloc(4 * 1024 * 1024, 1));
    console.log('{"full": false}');
  } catch {
    console.log(JSON.stringify({ full: true, files: n }));
  }
} else if (mode === 'memory') {
  const hog = [];
  for (;;) hog.push(Buffer.alloc(8 * 1024 * 1024, 1));
} else if (mode === 'flood') {
  const block = 'x'.repeat(65536);
  const more = () => { while (process.stdout.write(block)); process.stdout.once('drain', more); };
  more();
} else if (mode === 'secrets') {
  const { PEM, TOKEN, OPTIONAL = null, UNDECLARED = null } = process.env;
  console.error(PEM + '\\n' + JSON.stringify(PEM) + '\\n' + PEM.split('\\n').map((line) => '> ' + line).join('\\n'));
  if (d.fail) {
    console.log(JSON.stringify({ error: 'token ' + TOKEN + ' is wrong' }));
    process.exitCode = 1;
  } else console.log(JSON.stringify({ pem: PEM, token: '<' + TOKEN + '>', [TOKEN]: 1, optional: OPTIONAL, undeclared: UNDECLARED }));
} else console.log(JSON.stringify({ got: d }));
`;

const PEM = ['-----BEGIN KEY-----', 'MIIEvQIBADANBgkqhkiG"9w0B', 'AQEFAASCBKcwggSjAgEAA\\ü', '-----END KEY-----'].join(
  '\n',
);
const TOKEN = 'tok-8d1f0c77a2';

type Files = Readonly<Record<string, string>>;

/** Calls of agents that are programs. */
export function callsSuite(target: () => Target, has: Languages): void {
  const languages = [
    ['Python', has.python, 'py', { 'main.py': PYTHON }],
    ['Node', has.node, 'js', { 'main.js': JAVASCRIPT }],
  ] as const;
  const post = (path: string, options: Parameters<typeof request>[3] = {}) =>
    request(target(), 'POST', path, { key: target().key, ...options });
  const noInterpreter = (name: string) => `${name} (skipped without an interpreter on this machine)`;

  for (const [language, present, short, files] of languages) {
    describe.skipIf(!present).concurrent(noInterpreter(`calls of a ${language} agent`), () => {
      const probe = `probe-${short}`;
      const run = (json: unknown, options: Parameters<typeof request>[3] = {}) =>
        post(`/acme/${probe}/v1/run`, { json, ...options });
      let client: Client;
      let probeId: string;
      let shortLivedId: string;
      beforeAll(async () => {
        client = clientOf(target());
        const [published, shortLived] = await Promise.all([
          publishCode(client, probe, files),
          publishCode(client, `${probe}-brief`, files, { timeout_seconds: 6 }),
        ]);
        probeId = published.agent.id;
        shortLivedId = shortLived.agent.id;
        await publishCode(client, `${probe}-secret`, files, {
          required_secrets: ['PEM', 'TOKEN'],
          optional_secrets: ['OPTIONAL', 'ABSENT'],
        });
      });
      const logsOf = async (id: string, requestId: string) => {
        const logs = expectOk(await request(target(), 'GET', `/agents/${id}/logs`, { key: target().key }));
        return logs.find((entry: { request_id: string }) => entry.request_id === requestId);
      };

      test('JSON goes in and comes out, with metadata, and a run is recorded', async () => {
        const json = { text: 'ünï 😀', n: [1, { a: null }], __proto: 1 };
        const answer = await run(json);
        expect(expectOk(answer)).toEqual({
          data: { got: json },
          metadata: {
            request_id: answer.headers.get('x-request-id'),
            processing_time_ms: expect.any(Number),
            version: 'v1',
            execution_time_ms: expect.any(Number),
          },
        });
        const runId = answer.headers.get('x-run-id')!;
        expect(`req_${runId.replaceAll('-', '')}`).toBe(answer.body.metadata.request_id);
        expect(answer.headers.get('x-platform-run-id')).toBe(runId);
        expect(await logsOf(probeId, answer.body.metadata.request_id)).toEqual({
          id: runId,
          request_id: answer.body.metadata.request_id,
          agent_id: probeId,
          started_at: expect.stringMatching(ISO_TIME),
          completed_at: expect.stringMatching(ISO_TIME),
          duration_ms: expect.any(Number),
          status: 'success',
          trigger_source: 'api',
          error_message: null,
          exit_code: 0,
          stdout: expect.stringContaining('"got"'),
          stderr: '',
        });
      });

      test('a missing body is an empty object', async () => {
        expect(expectOk(await run(undefined)).data).toEqual({ got: {} });
      });

      test('"latest" and any endpoint name lead to the agent', async () => {
        expect(expectOk(await post(`/acme/${probe}/latest/analyze`, { json: { a: 1 } })).data).toEqual({
          got: { a: 1 },
        });
      });

      test('verbose shows what was printed, and nothing else does', async () => {
        const json = { mode: 'print', stdout: '{"a":1}', stderr: 'hello' };
        expect(expectOk(await run(json)).metadata).not.toHaveProperty('stdout');
        const verbose = expectOk(await post(`/acme/${probe}/v1/run?verbose=true`, { json }));
        expect(verbose).toMatchObject({ data: { a: 1 }, metadata: { stdout: '{"a":1}', stderr: 'hello' } });
      });

      test("the environment holds only the run's own variables", async () => {
        const { env, cwd } = expectOk(await run({ mode: 'env' })).data;
        expect(cwd).toBe('/home/user/agent');
        expect(env).toMatchObject({ HOME: '/home/user', USER: 'user' });
        const usual =
          /^(PLATFORM_(SERVICE_KEY|GATEWAY_URL|CALL_CHAIN(_SIG)?|DEADLINE_MS|MAX_HOPS|DOWNSTREAM_REMAINING|BILLING_ORG_(ID|SIG)|ROOT_RUN_ID|REQUEST_ID)|PATH|HOME|USER|LANG|LC_\w+|SHELL|TERM|PWD|OLDPWD|SHLVL|TMPDIR|_|PYTHON\w*|NODE_PATH|\w+_proxy|\w+_PROXY|NODE_USE_ENV_PROXY)$/;
        expect(Object.keys(env).filter((name) => !usual.test(name))).toEqual([]);
      });

      test.each([
        ['empty output', '', {}, 'VALIDATION_SKIPPED'],
        ['white space', ' \n', {}, 'VALIDATION_SKIPPED'],
        ['a number', '42', 42, undefined],
        ['null', 'null', null, undefined],
        ['indented JSON', '{\n  "a": [\n    1\n  ]\n}\n', { a: [1] }, undefined],
        ['an error member', '{"error":"bad input"}', { error: 'bad input' }, undefined],
        ['text', 'hello\n', { result: 'hello\n' }, 'VALIDATION_SKIPPED'],
        ['two values', '{} {}', { result: '{} {}' }, 'VALIDATION_SKIPPED'],
        ['a number that is too large', '{"a":1e400}', { result: '{"a":1e400}' }, 'VALIDATION_SKIPPED'],
        [
          'JSON too deep',
          '['.repeat(5000) + ']'.repeat(5000),
          { result: expect.stringMatching(/^\[+\]+$/) },
          'VALIDATION_SKIPPED',
        ],
      ])('output that is %s', async (_, stdout, data, warning) => {
        const body = expectOk(await run({ mode: 'print', stdout }));
        expect(body.data).toEqual(data);
        expect(body.warnings?.map(({ code }: { code: string }) => code)).toEqual(warning && [warning]);
      });

      test('a non-zero exit status fails the run with the program’s own message', async () => {
        const stdout = '{"error":"the file is damaged"}';
        const answer = await run({ mode: 'print', stdout, stderr: 'Traceback: deep', exit: 3 });
        const error = expectError(answer, 500, 'SANDBOX_ERROR', /^the file is damaged$/);
        expect(error).toMatchObject({
          is_retryable: false,
          category: 'code_error',
          user_message: 'the file is damaged',
          stderr_tail: 'Traceback: deep',
        });
        expect(await logsOf(probeId, answer.body.metadata.request_id)).toMatchObject({
          status: 'error',
          exit_code: 3,
          error_message: 'the file is damaged',
          stderr: 'Traceback: deep',
        });
        const silent = await run({ mode: 'print', stdout: 'x', exit: 1 });
        expectError(silent, 500, 'SANDBOX_ERROR', /^The agent ended with status 1\.$/);
      });

      test('logs keep 10 KB of a stream, its beginning and its end', async () => {
        const stderr = `first ${'x'.repeat(30_000)} last`;
        const answer = await run({ mode: 'print', stdout: '1', stderr });
        const log = await logsOf(probeId, answer.body.metadata.request_id);
        expect(log.stderr.length).toBeLessThanOrEqual(10_240);
        expect(log.stderr).toMatch(/^first x+\n\[\.\.\. \d+ bytes left out \.\.\.\]\nx+ last$/);
      });

      test('a program that ignores SIGTERM is killed at its timeout', async () => {
        const answer = await whenThereIsRoom(() =>
          post(`/acme/${probe}-brief/v1/run`, { json: { mode: 'ignore-term' } }),
        );
        const error = expectError(answer, 504, 'TIMEOUT', 'timeout_seconds is 6');
        expect(error.is_retryable).toBe(true);
        const log = await logsOf(shortLivedId, answer.body.metadata.request_id);
        expect(log).toMatchObject({ status: 'timeout', error_message: expect.stringContaining('deadline') });
      });

      test("the caller's deadline ends the run", async () => {
        const call = (inMs: number) =>
          whenThereIsRoom(() => {
            const headers = { 'x-platform-deadline-ms': String(Date.now() + inMs) };
            return run({ mode: 'sleep', seconds: 600 }, { headers });
          });
        expectError(await call(6000), 504, 'TIMEOUT');
        expectError(await call(-1), 504, 'TIMEOUT', 'already passed');
        const wrong = await run({}, { headers: { 'x-platform-deadline-ms': 'soon' } });
        expectError(wrong, 400, 'INVALID_INPUT', 'header.x-platform-deadline-ms');
      });

      test('background processes do not delay the answer', async () => {
        expect(expectOk(await run({ mode: 'fork' })).data).toEqual({ forked: true });
      });

      test('it cannot fill the disk', async () => {
        const { data } = expectOk(await run({ mode: 'disk' }));
        expect(data).toMatchObject({ full: true });
      });

      test('it cannot use more memory than its limit', async () => {
        const error = expectError(await run({ mode: 'memory' }), 500, 'SANDBOX_ERROR');
        expect(error.category).toBe('code_error');
      });

      test('it cannot print more than 10 MB', async () => {
        const answer = await run({ mode: 'flood' });
        expectError(answer, 500, 'SANDBOX_ERROR', 'more than 10 MB');
        expect((await logsOf(probeId, answer.body.metadata.request_id)).stdout.length).toBeLessThanOrEqual(10_240);
      });

      test('files come with their path, name, type and size', async () => {
        const form = new FormData();
        form.append('files[]', new Blob(['a,b\n'], { type: 'text/csv' }), '../my täble.csv');
        form.append('files[]', new Blob(['second']), 'x.bin');
        form.set('metadata', '{"mode":"ignored","llm_credentials":{"api_key":"sk-hidden-key"}}');
        const { got } = expectOk(await run(undefined, { body: form })).data;
        expect(got.files).toEqual([
          {
            path: expect.stringMatching(/^\/tmp\/uploads\/0_[\w.-]+\.csv$/),
            original_name: 'my täble.csv',
            content_type: 'text/csv',
            size_bytes: 4,
          },
          {
            path: '/tmp/uploads/1_x.bin',
            original_name: 'x.bin',
            content_type: 'application/octet-stream',
            size_bytes: 6,
          },
        ]);
        expect(got.metadata).toEqual({ mode: 'ignored' });
      });

      test('files can be read, and metadata may be sent without files', async () => {
        const files = `import json,sys\nd=json.load(sys.stdin)\nprint(json.dumps([open(f["path"]).read() for f in d["files"]]))`;
        const code: Files =
          short === 'py'
            ? { 'main.py': files }
            : {
                'main.js': `const d=JSON.parse(require('fs').readFileSync(0,'utf8'));console.log(JSON.stringify(d.files.map((f)=>require('fs').readFileSync(f.path,'utf8'))))`,
              };
        await publishCode(client, `${probe}-reader`, code);
        const form = new FormData();
        form.set('file', new Blob(['content ü']), 'a.txt');
        expect(expectOk(await post(`/acme/${probe}-reader/v1/run`, { body: form })).data).toEqual(['content ü']);
        const alone = new FormData();
        alone.set('metadata', '{"a":1}');
        expect(expectOk(await run(undefined, { body: alone })).data).toEqual({
          got: { files: [], metadata: { a: 1 } },
        });
      });

      test("the caller's own model key reaches the program's environment and nothing else", async () => {
        const llm_credentials = { api_key: 'sk-ant-callers-own-key', provider: 'anthropic', model: 'some-model' };
        const path = `/acme/${probe}/v1/run?verbose=true`;
        const answer = await post(path, { json: { mode: 'env', llm_credentials } });
        const { env } = expectOk(answer).data;
        expect(env).toMatchObject({
          LLM_PROVIDER: 'anthropic',
          LLM_MODEL: 'some-model',
          ANTHROPIC_API_KEY: '[secret LLM_API_KEY]',
        });
        expect(JSON.stringify(answer.body)).not.toContain('callers-own-key');
        const log = await logsOf(probeId, answer.body.metadata.request_id);
        expect(JSON.stringify(log)).not.toContain('callers-own-key');
        expect(expectOk(await run({ a: 1, llm_credentials })).data).toEqual({ got: { a: 1 } });
        for (const [wrong, field] of [
          ['x', '"llm_credentials"'],
          [{ provider: 'nobody' }, '"llm_credentials.provider"'],
          [{ api_key: 7 }, '"llm_credentials.api_key"'],
        ]) {
          expectError(await run({ llm_credentials: wrong }), 400, 'INVALID_INPUT', field as string);
        }
      });

      test('secrets are required, injected where declared, and masked wherever they show', async () => {
        const caller = await target().addUser(`secrets-${short}`);
        const headers = { 'x-workspace-id': caller.workspaceId };
        await target().addMember(caller, (await clientOf(target()).getOrg({})).id);
        const call = (json: unknown) =>
          post(`/acme/${probe}-secret/v1/run?verbose=true`, { key: caller.key, headers, json });
        const put = (name: string, value: string) =>
          request(target(), 'PUT', `/workspaces/${caller.workspaceId}/secrets`, {
            key: caller.key,
            json: { name, value },
          });

        expectError(await call({}), 400, 'MISSING_SECRETS', /not found in workspace: PEM, TOKEN\./);
        await clientOf(target(), caller.key).putGrant({
          params: { workspace_id: caller.workspaceId, org: 'acme', agent: `${probe}-secret` },
          body: { version: 'v1', secrets: ['PEM', 'TOKEN', 'OPTIONAL', 'UNDECLARED'] },
        });
        expectError(await call({}), 400, 'MISSING_SECRETS', /not found in workspace: PEM, TOKEN\./);
        expectOk(await put('TOKEN', TOKEN));
        expectError(await call({}), 400, 'MISSING_SECRETS', /not found in workspace: PEM\./);
        expectOk(await put('PEM', PEM));
        expectOk(await put('OPTIONAL', 'optional-value'));
        expectOk(await put('UNDECLARED', 'undeclared-value'));

        const good = await call({ mode: 'secrets' });
        expect(expectOk(good).data).toEqual({
          pem: '[secret PEM]',
          token: '<[secret TOKEN]>',
          '[secret TOKEN]': 1,
          optional: '[secret OPTIONAL]',
          undeclared: null,
        });
        const bad = await call({ mode: 'secrets', fail: true });
        expectError(bad, 500, 'SANDBOX_ERROR', 'token [secret TOKEN] is wrong');
        const echoed = await call({ mode: 'echo', text: `my ${TOKEN}` });
        expect(expectOk(echoed).data).toEqual({ got: { mode: 'echo', text: 'my [secret TOKEN]' } });
        const logs = await request(
          target(),
          'GET',
          `/agents/${(await client.listAgents({})).find(({ name }) => name === `${probe}-secret`)!.id}/logs`,
          { key: target().key },
        );
        expect(expectOk(logs).length).toBeGreaterThanOrEqual(3);
        const shown = JSON.stringify([good.body, bad.body, echoed.body, logs.body]);
        for (const part of [
          TOKEN,
          'optional-value',
          'undeclared-value',
          'MIIEvQIBADANBgkqhkiG',
          'AQEFAASCBKcwggSjAgEAA',
        ]) {
          expect(shown).not.toContain(part);
        }
      });

      // This test has its own agent, because it polls while other tests run.
      test('a run continues after its client disconnects', async ({ expect }) => {
        const { agent } = await publishCode(client, `${probe}-alone`, files);
        const json = { mode: 'sleep', seconds: 2 };
        const { connection, answered } = startCall(target(), `/acme/${probe}-alone/v1/run`, json);
        const [workspace] = (await client.listWorkspaces({})).workspaces.filter(({ slug }) => slug === 'acme');
        const query = { agent_name: `${probe}-alone`, status: 'running' as const };
        const running = async () => (await client.listRuns({ params: { workspace_id: workspace!.id }, query })).runs;
        const logs = () => client.listAgentLogs({ params: { id: agent.id } });
        await expect.poll(running, { timeout: 60_000, interval: 50 }).toHaveLength(1);
        expect(answered()).toBe(false);
        connection.destroy();
        await expect
          .poll(logs, { timeout: 60_000, interval: 100 })
          .toMatchObject([{ status: 'success', stdout: '{"slept": true}\n' }]);
      });

      test('twenty concurrent calls each get their own answer', async () => {
        const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => run({ n })));
        expect(answers.map((answer) => expectOk(answer).data.got.n)).toEqual(Array.from({ length: 20 }, (_, n) => n));
        expect(new Set(answers.map((answer) => answer.headers.get('x-run-id'))).size).toBe(20);
      });
    });
  }

  describe.skipIf(!has.python && !has.node).concurrent(noInterpreter('calls'), () => {
    const echo: Files = has.node
      ? { 'main.js': `process.stdin.pipe(process.stdout)` }
      : { 'main.py': 'import sys\nsys.stdout.write(sys.stdin.read())' };
    const schema = {
      type: 'object',
      properties: {
        text: { type: 'string' },
        old: { type: 'string', deprecated: true },
        nested: { type: 'object', properties: { n: { type: 'integer' } } },
      },
      required: ['text'],
      additionalProperties: false,
    };
    let client: Client;
    beforeAll(async () => {
      client = clientOf(target());
      await publishCode(client, 'echo', echo);
      await publishCode(client, 'strict', echo, {
        input_schema: schema,
        output_schema: { type: 'object', required: ['answer'] },
      });
    });

    test.each([
      ['text', 'text/plain', 'hello', 415, 'UNSUPPORTED_TYPE', 'text/plain'],
      ['a form', 'application/x-www-form-urlencoded', 'a=1', 415, 'UNSUPPORTED_TYPE', 'urlencoded'],
      ['broken JSON', 'application/json', '{"a":', 400, 'INVALID_INPUT', 'not valid JSON'],
      ['an array', 'application/json', '[]', 400, 'INVALID_INPUT', 'an array'],
      ['null', 'application/json', 'null', 400, 'INVALID_INPUT', 'null'],
      ['a number', 'application/json', '7', 400, 'INVALID_INPUT', 'a number'],
      [
        'nested too deep',
        'application/json',
        `{"a":${'['.repeat(10_000)}${']'.repeat(10_000)}}`,
        400,
        'INVALID_INPUT',
        'levels deep',
      ],
      ['broken multipart', 'multipart/form-data; boundary=x', '--x', 400, 'INVALID_INPUT', 'multipart'],
      ['multipart without boundary', 'multipart/form-data', '--x', 400, 'INVALID_INPUT', 'multipart'],
    ])('with a body that is %s are refused', async (_, type, body, status, code, message) => {
      expectError(await post('/acme/echo/v1/run', { body, headers: { 'content-type': type } }), status, code, message);
    });

    test('with other parts, or metadata that is no object, are refused', async () => {
      for (const [name, value, message] of [
        ['document', 'x', '"document"'],
        ['metadata', '{', '"metadata" is not valid JSON'],
        ['metadata', '[]', 'an array'],
        ['metadata', `${'{"a":'.repeat(1000)}1${'}'.repeat(1000)}`, 'levels deep'],
      ] as const) {
        const body = new FormData();
        body.set(name, value);
        expectError(await post('/acme/echo/v1/run', { body }), 400, 'INVALID_INPUT', message);
      }
    });

    test('larger than the limit are refused by their declared length, unread', async () => {
      const answer = await sendDeclared(target(), '/acme/echo/v1/run', 100 * 1024 * 1024);
      expect(answer.status).toBe(413);
      expect(JSON.parse(answer.body).error).toMatchObject({ code: 'DOCUMENT_TOO_LARGE' });
    });

    test('are checked against the input schema, and errors name the member', async () => {
      const call = (json: unknown) => post('/acme/strict/v1/run', { json });
      expectError(await call({}), 400, 'INVALID_INPUT', 'text: is required');
      expectError(await call({ text: 7 }), 400, 'INVALID_INPUT', 'text: must be string');
      expectError(await call({ text: 'x', nested: { n: 1.5 } }), 400, 'INVALID_INPUT', 'nested.n: must be integer');
      expectError(await call({ text: 'x', extra: 1 }), 400, 'INVALID_INPUT', 'extra: is not allowed');
      const { data, warnings } = expectOk(await call({ text: 'x', old: 'y', llm_credentials: { model: 'm' } }));
      expect(data).toEqual({ text: 'x', old: 'y' });
      expect(warnings).toEqual([
        { code: 'DEPRECATED_FIELD', field: 'old', message: expect.stringContaining('"old"') },
        { code: 'VALIDATION_SKIPPED', field: 'answer', message: expect.stringContaining('output schema') },
      ]);
    });

    test("get the defaults of the schema; the run's record has what was sent", async () => {
      const properties = {
        text: { type: 'string' },
        language: { type: 'string', default: 'en' },
        options: { type: 'object', properties: { depth: { type: 'integer', default: 2 } } },
        old: { default: 1, deprecated: true },
      };
      await publishCode(client, 'defaults', echo, { input_schema: { properties, required: ['text', 'language'] } });
      const call = (json: unknown) => post('/acme/defaults/v1/run', { json });
      const answer = await call({ text: 'a', options: {} });
      const { data, warnings } = expectOk(answer);
      expect(data).toEqual({ text: 'a', language: 'en', options: { depth: 2 }, old: 1 });
      expect(warnings).toBeUndefined();
      const workspaceId = (await client.listWorkspaces({})).workspaces.find(({ slug }) => slug === 'acme')!.id;
      const run = await client.getRun({
        params: { workspace_id: workspaceId, run_id: answer.headers.get('x-run-id')! },
      });
      expect(run.input_data).toEqual({ text: 'a', options: {} });
      expect(expectOk(await call({ text: 'a', language: 'de', options: { depth: 1 }, old: 0 })).data).toMatchObject({
        language: 'de',
      });
      expectError(await call({ options: {} }), 400, 'INVALID_INPUT', 'text: is required');
    });

    test('of unknown agents, versions or endpoints are 404', async () => {
      for (const path of [
        '/nobody/echo/v1/run',
        '/acme/nothing/v1/run',
        '/acme/echo/v9/run',
        '/acme/echo/1/run',
        '/acme/echo/V1/run',
      ]) {
        expectError(await post(path, { json: {} }), 404, 'NOT_FOUND', path.split('/').slice(1, 3).join('/'));
      }
    });

    test("of another workspace's agents need the agent to be public, and credits if it is paid", async () => {
      const stranger = await target().addUser('caller');
      const call = (name: string) => post(`/acme/${name}/v1/run`, { key: stranger.key, json: { a: 1 } });
      await publishCode(client, 'echo-public', echo, { is_public: true });
      await publishCode(client, 'echo-paid', echo, { is_public: true, price_per_call_cents: 5 });
      const { message } = expectError(await call('echo'), 403, 'FORBIDDEN', 'acme/echo');
      expect(message).not.toContain('description');
      expect(expectOk(await call('echo-public')).data).toEqual({ a: 1 });
      expectError(await call('echo-paid'), 402, 'INSUFFICIENT_CREDITS', '5 cents');
      expectOk(await post('/acme/echo-paid/v1/run', { json: {} }));
      const logs = expectOk(
        await request(
          target(),
          'GET',
          `/agents/${(await client.listAgents({})).find(({ name }) => name === 'echo-public')!.id}/logs`,
          { key: target().key },
        ),
      );
      expect(logs[0]).not.toHaveProperty('input');
    });

    test('of a version without code are refused with the reason', async () => {
      const { agent } = await client.createAgent({
        body: { name: 'no-code', type: 'tool', description: 'x', required_secrets: [] },
      });
      const error = expectError(
        await post('/acme/no-code/v1/run', { json: {} }),
        422,
        'UNPROCESSABLE',
        'no code bundle',
      );
      expect(error.hint).toContain(agent.id);
      expectError(await post('/acme/no-code/latest/run', { json: {} }), 422, 'UNPROCESSABLE', 'no code bundle');
    });

    test('of a deprecated version name its successor and its last day in headers', async () => {
      await publishCode(client, 'aging', echo);
      const young = await post('/acme/aging/v1/run', { json: {} });
      expect(expectOk(young) && young.headers.get('deprecation')).toBeNull();
      await client.createAgent({ body: { name: 'aging', type: 'tool', description: 'x', required_secrets: [] } });
      expect((await post('/acme/aging/v1/run', { json: {} })).headers.get('deprecation')).toBeNull();
      await publishCode(client, 'aging', echo);
      const old = await post('/acme/aging/v1/analyze', { json: {} });
      expect(expectOk(old).metadata.version).toBe('v1');
      expect(old.headers.get('deprecation')).toBe('true');
      expect(old.headers.get('link')).toBe('</acme/aging/v3/analyze>; rel="successor-version"');
      const days = (Date.parse(old.headers.get('sunset')!) - Date.now()) / 86_400_000;
      expect(Math.round(days)).toBe(60);
      const latest = await post('/acme/aging/latest/run', { json: {} });
      expect([expectOk(latest).metadata.version, latest.headers.get('deprecation')]).toEqual(['v3', null]);
    });

    test('succeed when the program does not read its input', async () => {
      const quick: Files = has.node
        ? { 'main.js': `console.log('{"ok":true}')` }
        : { 'main.py': `print('{"ok":true}')` };
      await publishCode(client, 'quick', quick);
      const big = { text: 'x'.repeat(2 * 1024 * 1024) };
      expect(expectOk(await post('/acme/quick/v1/run', { json: big })).data).toEqual({ ok: true });
    });

    /** Publishes a program of one file and calls it. */
    const callOf = async (name: string, files: Files, manifest: Readonly<Record<string, unknown>> = {}) => {
      await publishCode(client, name, files, manifest);
      return post(`/acme/${name}/v1/run`, { json: {} });
    };

    test.skipIf(!has.node)(
      'of a Node program that throws are answered with its message, though a stack follows',
      async () => {
        const deep = `const fail = (n) => { if (n > 0) return fail(n - 1); throw new Error('the pump ' + process.env.PLATFORM_SERVICE_KEY + ' is dry'); };`;
        const answer = await callOf('throws-js', {
          'main.js': `console.error('first words'); ${deep} Promise.resolve().then(() => fail(20));`,
        });
        const message = 'The agent ended with status 1: Error: the pump [secret PLATFORM_SERVICE_KEY] is dry';
        const { details, ...error } = expectError(answer, 500, 'SANDBOX_ERROR');
        expect(error).toMatchObject({
          message,
          user_message: message,
          stderr_tail: expect.stringContaining('    at '),
        });
        expect(details.exit_code).toBe(1);
        expect(details.stderr).toMatch(/^first words\n[\s\S]*the pump \[secret [\s\S]*\nNode\.js v\d[\d.]+\s*$/);
        const log = expectOk(await request(target(), 'GET', details.log, { key: target().key }));
        expect(log).toMatchObject({ error_message: message, stderr: details.stderr });
      },
    );

    test.skipIf(!has.python)(
      'of a Python program that raises are answered with the last exception of the chain',
      async () => {
        const code = `import sys\nsys.stderr.write("begin" + "x" * 9000 + "\\n")\ntry:\n  int("x")\nexcept Exception as e:\n  raise RuntimeError("no such order") from e\n`;
        const answer = await callOf('raises-py', { 'main.py': code });
        const { details } = expectError(
          answer,
          500,
          'SANDBOX_ERROR',
          /^The agent ended with status 1: RuntimeError: no such order$/,
        );
        expect(details.stderr.length).toBeLessThanOrEqual(4096);
        expect(details.stderr).toMatch(
          /^beginx+\n\[\.\.\. \d+ bytes left out \.\.\.\][\s\S]*direct cause[\s\S]*no such order\s*$/,
        );
      },
    );

    test.each([
      [
        'has no such program',
        'nosuch --fast',
        {},
        /status 127: there is no program "nosuch" in the sandbox\. It has python3,/,
      ],
      [
        'names a file that is not there',
        './src/go.sh',
        {},
        /status 127: there is no \.\/src\/go\.sh in the bundle\. Paths begin/,
      ],
      [
        'names a file without its executable bit',
        './go.sh',
        { 'go.sh': '#!/bin/sh\necho 1\n' },
        /status 126: .*"bash \.\/go\.sh", or set/,
      ],
      [
        'has Windows line endings',
        'bash go.sh',
        { 'go.sh': 'if true; then\r\necho 1\r\nfi\r\n' },
        /status 2: go\.sh has Windows line/,
      ],
      [
        'fits another interpreter',
        'bash go.py',
        { 'go.py': 'import json\nprint(1)\n' },
        /status 2: the command starts go\.py with bash\. Start it with python3/,
      ],
    ] as const)('of a command that %s say so, and what to do', async (_, command, files, message) => {
      const name = `start-${command.replaceAll(/[^a-z]+/g, '-').replaceAll(/^-|-$/g, '')}`;
      const answer = await callOf(name, { 'read.me': 'x', ...files }, { runtime: { command } });
      expect(expectError(answer, 500, 'SANDBOX_ERROR', message).category).toBe('code_error');
    });

    test('of a handler that nothing calls succeed with a warning that says what was expected', async () => {
      const files: Files = has.node
        ? { 'index.js': 'exports.handler = async (event) => ({ ok: true });\n' }
        : { 'main.py': 'def handler(event, context):\n  return {"ok": True}\n' };
      const { data, warnings } = expectOk(await callOf('lambda-style', files));
      expect(data).toEqual({});
      expect(warnings).toEqual([{ code: 'VALIDATION_SKIPPED', message: expect.stringContaining('defines handler') }]);
      expect(warnings[0].message).toContain('prints its result to stdout as one JSON value');
    });

    test('of a server are told why they were not answered, and that a retry does not help', async () => {
      const files: Files = has.node
        ? { 'main.js': `require('http').createServer().listen(3000, () => console.error('listening on port 3000'));` }
        : {
            'main.py': `import http.server, sys\nsys.stderr.write("Serving HTTP on 0.0.0.0 port 8000\\n")\nhttp.server.HTTPServer(("", 8000), http.server.SimpleHTTPRequestHandler).serve_forever()`,
          };
      await publishCode(client, 'serves', files, { timeout_seconds: 12 });
      const answer = await whenThereIsRoom(() => post('/acme/serves/v1/run', { json: {} }));
      const error = expectError(answer, 504, 'TIMEOUT', 'timeout_seconds is 12');
      expect(error).toMatchObject({ is_retryable: false, hint: expect.stringContaining('listens on a port') });
      expect(error.details.stderr).toMatch(/port \d+/);
    });

    test('return large bodies whole', async () => {
      const big = { text: 'ü'.repeat(1024 * 1024) };
      expect(expectOk(await post('/acme/echo/v1/run', { json: big })).data).toEqual(big);
    });
  });
}

/** Retries a call that got no sandbox in time, because sandboxes start slowly on some hosts. */
async function whenThereIsRoom(call: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await call();
    if (!/^(No sandbox became available|The deadline passed before)/.test(answer.body.error.message)) return answer;
    await setTimeout(500);
  }
}

/** Starts a call whose connection can be closed before its answer. */
function startCall(target: Target, path: string, json: unknown): { connection: ClientRequest; answered(): boolean } {
  let isAnswered = false;
  const headers = { authorization: `Bearer ${target.key}`, 'content-type': 'application/json' };
  const connection = httpRequest(target.url + path, { method: 'POST', headers }, () => {
    isAnswered = true;
  });
  connection.on('error', () => {}).end(JSON.stringify(json));
  return { connection, answered: () => isAnswered };
}

/** Sends a request that declares a length but sends only its beginning. */
export function sendDeclared(
  target: Target,
  path: string,
  length: number,
  contentType = 'application/json',
): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${target.key}`, 'content-type': contentType, 'content-length': length };
    const sent = httpRequest(target.url + path, { method: 'POST', headers }, async (response) => {
      const body = Buffer.concat(await Array.fromAsync(response)).toString();
      resolve({ status: response.statusCode!, body });
      sent.destroy();
    });
    sent.on('error', reject);
    sent.write('{"a":"');
  });
}
