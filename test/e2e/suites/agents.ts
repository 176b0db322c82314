import { describe, expect, test } from 'vitest';
import { bundleForm, clientOf, publishCode, request, type Target, zipOf } from '#test/helpers/platform.ts';
import { expectError, expectOk, ISO_TIME, UUID } from '../expect.ts';
import { sendDeclared } from './calls.ts';

const PROMPT = { type: 'prompt', description: 'says it', prompt: 'Say {{text}}.', supported_providers: ['any'] };
const TOOL = { type: 'tool', description: 'does it', required_secrets: [], supported_providers: ['any'] };

/** Publishing, reading, changing, forking and deleting agents; the public catalog. `calls.ts` tests running code. */
export function agentsSuite(target: () => Target): void {
  const call = (method: string, path: string, options?: Parameters<typeof request>[3]) =>
    request(target(), method, path, options);
  const publish = (key: string, json: Record<string, unknown>) => call('POST', '/agents', { key, json });
  const published = async (key: string, json: Record<string, unknown>) => expectOk(await publish(key, json), 201).agent;

  describe.concurrent('publishing', () => {
    test.each([
      ['prompt', PROMPT, { type: 'prompt', execution_engine: 'direct_llm', runnable: true }],
      ['tool', TOOL, { type: 'tool', execution_engine: 'code_runtime', runnable: false }],
      ['code', { ...TOOL, type: 'code' }, { type: 'tool', execution_engine: 'code_runtime' }],
      [
        'agent',
        { ...TOOL, type: 'agent', prompt: 'Do it.', supported_providers: ['anthropic'] },
        { type: 'agent', execution_engine: 'managed_loop', loop: { max_turns: 25, custom_tools: [] } },
      ],
      [
        'agentic with a loop',
        {
          ...TOOL,
          type: 'agentic',
          prompt: 'Do it.',
          supported_providers: ['anthropic'],
          loop: { max_turns: 5, custom_tools: [{ name: 'ls', description: 'lists', command: 'ls' }] },
        },
        { type: 'agent', loop: { max_turns: 5, custom_tools: [{ name: 'ls', description: 'lists', command: 'ls' }] } },
      ],
      [
        'skill',
        { type: 'skill', description: 'helps', prompt: '# How' },
        { type: 'skill', execution_engine: null, callable: false },
      ],
      ['prompt forced to code', { ...PROMPT, runtime: { command: 'sh run.sh' } }, { execution_engine: 'code_runtime' }],
    ])('a %s', async (kind, body, expected) => {
      const name = kind.replaceAll(' ', '-');
      const { key, workspaceId } = await target().addUser(`pub-${name}`);
      const answer = expectOk(await publish(key, { name, ...body }), 201);
      expect(answer.warnings).toEqual([]);
      expect(answer.services_updated).toBe(0);
      expect(answer.agent).toMatchObject({
        id: expect.stringMatching(UUID),
        name,
        version: 'v1',
        org_id: workspaceId,
        org_slug: `pub-${name}`,
        default_endpoint: 'run',
        created_at: expect.stringMatching(ISO_TIME),
        is_public: false,
        ...expected,
      });
      expect(expectOk(await call('GET', `/agents/${answer.agent.id}`, { key }))).toEqual(answer.agent);
    });

    test.each([
      ['no name', { ...PROMPT }, 'name'],
      ['a wrong name', { ...PROMPT, name: 'Über_Agent' }, 'name'],
      ['an unknown type', { ...PROMPT, name: 'xx', type: 'robot' }, 'type'],
      ['no description', { name: 'xx', type: 'prompt', prompt: 'x' }, 'description'],
      ['runtime and loop', { ...TOOL, name: 'xx', runtime: { command: 'x' }, loop: {} }, 'loop'],
      ['an always-on prompt', { ...PROMPT, name: 'xx', run_mode: 'always_on' }, 'run_mode'],
      [
        'too many turns',
        { ...TOOL, name: 'xx', type: 'agent', prompt: 'x', loop: { max_turns: 51 } },
        'loop.max_turns',
      ],
      [
        'a tool that does not declare its secrets',
        { ...TOOL, name: 'xx', required_secrets: undefined },
        'required_secrets',
      ],
      ['a wrong secret name', { ...TOOL, name: 'xx', required_secrets: ['a-b'] }, 'required_secrets[0]'],
      ['a schema that is none', { ...PROMPT, name: 'xx', input_schema: { type: 'strnig' } }, 'input_schema.type'],
      ['a negative timeout', { ...TOOL, name: 'xx', timeout_seconds: -1 }, 'timeout_seconds'],
      ['max_hops outside of manifest', { ...TOOL, name: 'xx', max_hops: 3 }, 'max_hops'],
      [
        'a dependency that does not exist',
        {
          ...TOOL,
          name: 'xx',
          manifest: {
            manifest_version: 1,
            max_hops: 1,
            timeout_ms: 1000,
            dependencies: [{ id: 'no/body', version: 'v1' }],
          },
        },
        'manifest.dependencies[0]',
      ],
      [
        'a dependency on itself',
        {
          ...TOOL,
          name: 'xx',
          manifest: {
            manifest_version: 1,
            max_hops: 1,
            timeout_ms: 1000,
            dependencies: [{ id: 'acme/xx', version: 'v1' }],
          },
        },
        'manifest.dependencies[0]',
      ],
    ])('is refused with %s, and validating says the same', async (_, body, field) => {
      const { key } = target();
      const { message } = expectError(await publish(key, body), 400, 'INVALID_INPUT', `${field}: `);
      const { valid, errors } = expectOk(await call('POST', '/agents/validate', { key, json: body }));
      expect(valid).toBe(false);
      expect(errors.join('; ')).toBe(message);
    });

    test('validating and previewing store nothing', async () => {
      const { key } = await target().addUser('pub-dry');
      const json = { ...PROMPT, name: 'dry-run' };
      expect(expectOk(await call('POST', '/agents/validate', { key, json }))).toEqual({
        valid: true,
        errors: [],
        warnings: [],
      });
      const preview = async () => expectOk(await call('GET', '/agents/preview?name=dry-run', { key }));
      expect(await preview()).toEqual({
        name: 'dry-run',
        existing_versions: [],
        next_version: 'v1',
        org_slug: 'pub-dry',
      });
      await published(key, json);
      await published(key, json);
      expect(await preview()).toMatchObject({ existing_versions: ['v1', 'v2'], next_version: 'v3' });
      expectError(await call('GET', '/agents/preview', { key }), 400, 'INVALID_INPUT', 'query.name');
    });

    test('warns of fields that are ignored or shortened', async () => {
      const { key } = await target().addUser('pub-warn');
      const json = { ...TOOL, name: 'warned', timeout_seconds: 301, model: 'x', colour: 'red' };
      const { agent, warnings } = expectOk(await publish(key, json), 201);
      expect(agent.timeout_seconds).toBe(300);
      for (const name of ['timeout_seconds', 'model', 'colour']) expect(warnings.join('\n')).toContain(name);
    });

    test('50 at once get 50 consecutive version numbers', async () => {
      const { key } = await target().addUser('pub-fifty');
      const answers = await Promise.all(Array.from({ length: 50 }, () => publish(key, { ...PROMPT, name: 'fifty' })));
      const versions = answers.map((answer) => Number(expectOk(answer, 201).agent.version.slice(1)));
      expect(versions.sort((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
      const listed = expectOk(await call('GET', '/agents', { key }));
      expect(listed).toHaveLength(50);
      expect(new Set(listed.map(({ id }: { id: string }) => id)).size).toBe(50);
    });

    test('needs the role owner', async () => {
      const [owner, member] = await Promise.all(['pub-owner', 'pub-member'].map((slug) => target().addUser(slug)));
      await target().addMember(member!, owner!.workspaceId);
      const options = { key: member!.key, headers: { 'x-workspace-id': owner!.workspaceId } };
      const json = { ...PROMPT, name: 'by-member' };
      expectError(await call('POST', '/agents', { ...options, json }), 403, 'FORBIDDEN', 'Only an owner');
      expectOk(await call('POST', '/agents/validate', { ...options, json }));
      const agent = await published(owner!.key, json);
      expectOk(await call('GET', `/agents/${agent.id}`, options));
      expectError(await call('PATCH', `/agents/${agent.id}`, { ...options, json: { tags: [] } }), 403, 'FORBIDDEN');
      expectError(await call('DELETE', `/agents/${agent.id}`, options), 403, 'FORBIDDEN');
    });
  });

  describe.concurrent('a published agent', () => {
    test('is listed with all its versions, in its workspace only', async () => {
      const [ann, bob] = await Promise.all(['own-ann', 'own-bob'].map((slug) => target().addUser(slug)));
      const first = await published(ann!.key, { ...PROMPT, name: 'mine' });
      await published(ann!.key, { ...PROMPT, name: 'mine' });
      const listed = expectOk(await call('GET', `/agents?workspace_id=${ann!.workspaceId}`, { key: ann!.key }));
      expect(listed.map(({ version }: { version: string }) => version)).toEqual(['v1', 'v2']);
      expect(expectOk(await call('GET', '/agents', { key: bob!.key }))).toEqual([]);
      const other = `/agents?workspace_id=${ann!.workspaceId}`;
      expectError(await call('GET', other, { key: bob!.key }), 403, 'FORBIDDEN');
      for (const path of ['', '/delete-check', '/logs', '/bundle']) {
        expectError(await call('GET', `/agents/${first.id}${path}`, { key: bob!.key }), 404, 'NOT_FOUND');
      }
    });

    test('takes changes of its display fields only', async () => {
      const { key } = await target().addUser('own-patch');
      const agent = await published(key, { ...PROMPT, name: 'patched' });
      const patch = (json: unknown) => call('PATCH', `/agents/${agent.id}`, { key, json });
      const changes = { description: 'new', tags: ['a', 'b'], timeout_seconds: 20, default_endpoint: 'analyze' };
      const changed = expectOk(await patch(changes));
      expect(changed).toMatchObject(changes);
      expect({ ...changed, updated_at: agent.updated_at }).toEqual({ ...agent, ...changes });
      for (const [field, value] of Object.entries({
        run_mode: 'always_on',
        runtime: { command: 'x' },
        loop: { max_turns: 3 },
        callable: false,
        skills_locked: true,
        prompt: 'x',
        name: 'other',
      })) {
        expectError(await patch({ [field]: value }), 400, 'INVALID_INPUT', `${field}: cannot be changed`);
      }
      expectError(await patch({ colour: 'red' }), 400, 'INVALID_INPUT', 'colour: is not a member');
      expectError(await patch({ timeout_seconds: -1 }), 400, 'INVALID_INPUT', 'timeout_seconds: ');
      expect(expectOk(await call('GET', `/agents/${agent.id}`, { key }))).toEqual(changed);
    });

    test('is deleted one version at a time, and no version number is used twice', async () => {
      const { key } = await target().addUser('own-delete');
      const versions = [];
      for (let n = 0; n < 3; n += 1) versions.push(await published(key, { ...PROMPT, name: 'gone', is_public: true }));
      const check = expectOk(await call('GET', `/agents/${versions[0].id}/delete-check?mode=all_versions`, { key }));
      expect(check).toEqual({
        agent_id: versions[0].id,
        agent_name: 'gone',
        stars_count: 0,
        fork_count: 0,
        requires_confirmation: false,
        version_count: 3,
      });
      const latest = async () => (await call('GET', '/public/agents/own-delete/gone/latest')).body.version;
      expect(await latest()).toBe('v3');
      expect(expectOk(await call('DELETE', `/agents/${versions[2].id}`, { key }))).toEqual({
        deleted: true,
        agent_id: versions[2].id,
        agent_name: 'gone',
      });
      expect(await latest()).toBe('v2');
      expectError(await call('GET', `/agents/${versions[2].id}`, { key }), 404, 'NOT_FOUND');
      expectError(await call('DELETE', `/agents/${versions[2].id}`, { key }), 404, 'NOT_FOUND');
      expectError(await call('GET', '/public/agents/own-delete/gone/v3'), 404, 'NOT_FOUND');

      const all = expectOk(await call('DELETE', `/agents/${versions[0].id}?mode=all_versions`, { key }));
      expect(all).toEqual({ deleted: true, agent_id: versions[0].id, agent_name: 'gone', version_count: 2 });
      expect(expectOk(await call('GET', '/agents', { key }))).toEqual([]);
      expectError(await call('GET', '/public/agents/own-delete/gone/latest'), 404, 'NOT_FOUND');
      expect((await published(key, { ...PROMPT, name: 'gone' })).version).toBe('v4');
      expectError(
        await call('DELETE', `/agents/${versions[0].id}?mode=some`, { key }),
        400,
        'INVALID_INPUT',
        'query.mode',
      );
    });
  });

  describe.concurrent('forking', () => {
    test('copies a public agent with open source, whose deletion then needs a confirmation', async () => {
      const [ann, bob] = await Promise.all(['fork-ann', 'fork-bob'].map((slug) => target().addUser(slug)));
      const open = { ...PROMPT, is_public: true, allow_local_download: true };
      const source = await published(ann!.key, { ...open, name: 'open' });
      const fork = (json: unknown, id = source.id) => call('POST', `/agents/${id}/fork`, { key: bob!.key, json });

      const { agent } = expectOk(await fork({}));
      expect(agent).toMatchObject({
        name: 'open',
        version: 'v1',
        org_slug: 'fork-bob',
        is_public: false,
        forked_from: source.id,
        prompt: open.prompt,
      });
      expect(agent.id).not.toBe(source.id);
      expect(expectOk(await fork({ new_name: 'renamed', workspace_id: bob!.workspaceId })).agent.name).toBe('renamed');
      expect(expectOk(await fork({ new_name: 'renamed' })).agent.version).toBe('v2');

      for (const new_name of ['', 'X', '../x', 'x'.repeat(3000)]) {
        expectError(await fork({ new_name }), 400, 'INVALID_INPUT', 'name: ');
      }
      expectError(await fork({ workspace_id: ann!.workspaceId }), 403, 'FORBIDDEN');

      const remove = (query = '') => call('DELETE', `/agents/${source.id}${query}`, { key: ann!.key });
      const check = expectOk(await call('GET', `/agents/${source.id}/delete-check`, { key: ann!.key }));
      expect(check).toMatchObject({ fork_count: 3, requires_confirmation: true });
      expectError(await remove(), 400, 'INVALID_INPUT', 'confirmation_name=open');
      expectError(await remove('?confirmation_name=other'), 400, 'INVALID_INPUT');
      expectOk(await remove('?confirmation_name=open'));
      expectOk(await call('GET', `/agents/${agent.id}`, { key: bob!.key }));
    });

    test('is refused for private, closed-source, paid or incomplete agents', async () => {
      const [ann, bob] = await Promise.all(['fork-cat', 'fork-dan'].map((slug) => target().addUser(slug)));
      const fork = async (agent: { id: string }, key = bob!.key) =>
        call('POST', `/agents/${agent.id}/fork`, { key, json: {} });
      const open = { ...PROMPT, is_public: true, allow_local_download: true };
      const closed = await published(ann!.key, { ...open, name: 'closed', allow_local_download: false });
      const paid = await published(ann!.key, { ...open, name: 'paid', price_per_call_cents: 5 });
      const secret = await published(ann!.key, { ...open, name: 'secret', is_public: false });
      const incomplete = await published(ann!.key, { ...open, ...TOOL, name: 'incomplete' });
      expectError(await fork(closed), 400, 'INVALID_INPUT', 'source');
      expectError(await fork(paid), 400, 'INVALID_INPUT', 'source');
      expectError(await fork(secret), 404, 'NOT_FOUND');
      expectError(await fork(secret, ann!.key), 400, 'INVALID_INPUT', 'not public');
      expectError(await fork(incomplete), 400, 'INVALID_INPUT', 'not complete');
    });
  });

  describe.concurrent('the catalog', () => {
    test('shows public agents, without the source of closed and paid ones', async () => {
      const { key } = await target().addUser('cat-views');
      const body = { ...PROMPT, is_public: true, allow_local_download: true, tags: ['cat-views'] };
      await published(key, { ...body, name: 'open' });
      await published(key, { ...body, name: 'closed', allow_local_download: false });
      await published(key, { ...body, name: 'paid', price_per_call_cents: 5 });
      await published(key, { ...body, name: 'hidden', is_public: false });

      const view = (name: string, path = '') => call('GET', `/public/agents/cat-views/${name}/v1${path}`);
      expect(expectOk(await view('open'))).toMatchObject({ prompt: body.prompt, manifest: {}, skill_files: [] });
      for (const name of ['closed', 'paid']) {
        const shown = expectOk(await view(name));
        expect(shown).toMatchObject({ name, description: body.description, tags: body.tags });
        for (const member of ['prompt', 'manifest', 'skill_files', 'runtime', 'loop', 'is_public', 'code_bundle_url']) {
          expect(shown).not.toHaveProperty(member);
        }
      }
      expect((await view('paid')).body).toMatchObject({ pricing_mode: 'per_call', price_per_call_cents: 5 });
      expectError(await view('hidden'), 404, 'NOT_FOUND');

      expect(expectOk(await view('open', '/download'))).toMatchObject({
        name: 'open',
        prompt: body.prompt,
        has_bundle: false,
      });
      for (const path of ['/download', '/bundle']) {
        expectError(await view('closed', path), 403, 'DOWNLOAD_DISABLED');
        expectError(await view('paid', path), 403, 'PAID_AGENT_SERVER_ONLY');
        expectError(await view('hidden', path), 404, 'NOT_FOUND');
      }
      expectError(await view('open', '/bundle'), 404, 'NOT_FOUND', 'no code bundle');
    });

    test('is searched by text, tags and type, and paged', async () => {
      const { key } = await target().addUser('cat-search');
      const body = { ...PROMPT, is_public: true };
      await published(key, { ...body, name: 'aa-first', tags: ['Cat-Search', 'red'] });
      await published(key, { ...body, name: 'bb-second', tags: ['cat-search'], description: 'Finds NEEDLES' });
      await published(key, { ...body, name: 'bb-second', tags: ['cat-search'], description: 'Finds NEEDLES' });
      await published(key, {
        type: 'skill',
        description: 'x',
        prompt: 'x',
        is_public: true,
        name: 'cc-third',
        tags: ['cat-search'],
      });
      const names = async (query: string) =>
        expectOk(await call('GET', `/public/agents?tags=cat-search&sort=name${query}`)).map(
          ({ name, version }: Record<string, string>) => `${name} ${version}`,
        );
      expect(await names('')).toEqual(['aa-first v1', 'bb-second v2', 'cc-third v1']);
      expect(await names('&limit=1&offset=1')).toEqual(['bb-second v2']);
      expect(await names('&search=needles')).toEqual(['bb-second v2']);
      expect(await names('&type=skills')).toEqual(['cc-third v1']);
      expect(await names('&type=constructor')).toEqual([]);
      expect(expectOk(await call('GET', '/public/agents?tags=cat-search,%20RED'))).toHaveLength(1);
      expectError(await call('GET', '/public/agents?limit=0'), 400, 'INVALID_INPUT', 'query.limit');
    });
  });

  describe.concurrent('a code bundle', () => {
    const upload = (key: string, id: string, body: FormData, headers?: Record<string, string>) =>
      call('POST', `/agents/${id}/upload`, { key, body, headers });

    test('is uploaded, shown, downloaded unchanged, and never replaced', async () => {
      const { key } = await target().addUser('up-life');
      const agent = await published(key, { ...TOOL, name: 'tool', is_public: true, allow_local_download: true });
      expect(agent).toMatchObject({ code_bundle_url: null, entrypoint: null, runnable: false });
      expectError(await call('GET', `/agents/${agent.id}/bundle`, { key }), 404, 'NOT_FOUND', 'no code bundle');
      expectError(await call('GET', '/public/agents/up-life/tool/latest'), 404, 'NOT_FOUND');

      const zip = zipOf({ 'main.py': 'print(1)', 'src/lib.py': '' });
      const answer = expectOk(await upload(key, agent.id, bundleForm(zip)));
      expect(answer).toEqual({
        success: true,
        code_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        bundle_id: answer.code_hash,
        bundle_size_bytes: zip.byteLength,
        size_bytes: zip.byteLength,
        file_count: 2,
        entrypoint: 'main.py',
        status: 'active',
        environment_status: null,
        environment_error: null,
        warnings: [],
        uploaded_at: expect.stringMatching(ISO_TIME),
        services_updated: 0,
      });
      expect(expectOk(await call('GET', `/agents/${agent.id}`, { key }))).toMatchObject({
        code_bundle_url: `/agents/${agent.id}/bundle`,
        entrypoint: 'main.py',
        runnable: true,
      });
      for (const [path, headers] of [
        [`/agents/${agent.id}/bundle`, { authorization: `Bearer ${key}` }],
        ['/public/agents/up-life/tool/latest/bundle', {}],
      ] as const) {
        const response = await fetch(target().url + path, { headers });
        expect(response.headers.get('content-type')).toBe('application/zip');
        expect(response.headers.get('content-disposition')).toBe('attachment; filename="tool-v1.zip"');
        expect(new Uint8Array(await response.arrayBuffer())).toEqual(zip);
      }

      expectOk(await upload(key, agent.id, bundleForm(zip)));
      const other = bundleForm(zipOf({ 'main.py': 'print(2)' }));
      expectError(await upload(key, agent.id, other), 409, 'CONFLICT', 'publish a new version');
    });

    test('may be sent in a form part named bundle, with its entrypoint', async () => {
      const { key } = await target().addUser('up-forms');
      const agent = await published(key, { ...TOOL, name: 'tool' });
      const zip = zipOf({ 'main.py': '', 'src/start.js': '' });
      const send = (entrypoint: string) =>
        upload(key, agent.id, bundleForm(zip, 'bundle'), { 'x-entrypoint': entrypoint });
      for (const wrong of ['missing.py', '../main.py', '/etc/passwd', 'main.py; id']) {
        expectError(await send(wrong), 400, 'INVALID_INPUT', 'x-entrypoint');
      }
      expect(expectOk(await send('src/start.js')).entrypoint).toBe('src/start.js');
    });

    test('is refused when it is not a zip, or the agent cannot take one', async () => {
      const { key } = await target().addUser('up-wrong');
      const tool = await published(key, { ...TOOL, name: 'tool' });
      const prompt = await published(key, { ...PROMPT, name: 'prompt' });
      const good = zipOf({ 'main.py': '' });
      const text = (content: string) => bundleForm(new TextEncoder().encode(content));
      expectError(await upload(key, prompt.id, bundleForm(good)), 400, 'INVALID_INPUT', 'direct_llm');
      expectError(await upload(key, tool.id, text('no zip')), 400, 'INVALID_INPUT', 'not a zip');
      expectError(await upload(key, tool.id, text('')), 400, 'INVALID_INPUT');
      expectError(await upload(key, tool.id, bundleForm(good.slice(0, -10))), 400, 'INVALID_INPUT', 'zip');
      expectError(await upload(key, tool.id, bundleForm(zipOf({ '../out.py': '' }))), 400, 'INVALID_INPUT', '..');
      expectError(
        await upload(key, tool.id, bundleForm(zipOf({ 'notes.txt': '' }))),
        400,
        'INVALID_INPUT',
        'nothing to run',
      );
      expectError(await upload(key, tool.id, bundleForm(good, 'archive')), 400, 'INVALID_INPUT', '"file"');
      const twice = bundleForm(good);
      twice.append('bundle', new Blob([good as Uint8Array<ArrayBuffer>]), 'b.zip');
      expectError(await upload(key, tool.id, twice), 400, 'INVALID_INPUT', 'it has 2');
      const path = `/agents/${tool.id}/upload`;
      expectError(await call('POST', path, { key, body: 'text' }), 415, 'UNSUPPORTED_TYPE');
      expectError(await call('POST', path, { key }), 415, 'UNSUPPORTED_TYPE');
      expect(expectOk(await call('GET', `/agents/${tool.id}`, { key })).runnable).toBe(false);
    });

    test('larger than the limit is refused by its declared length, unread', async () => {
      const { key } = await target().addUser('up-large');
      const agent = await published(key, { ...TOOL, name: 'tool' });
      const type = 'multipart/form-data; boundary=x';
      const answer = await sendDeclared({ ...target(), key }, `/agents/${agent.id}/upload`, 100 * 1024 * 1024, type);
      expect(answer.status).toBe(413);
      expect(JSON.parse(answer.body).error).toMatchObject({
        code: 'DOCUMENT_TOO_LARGE',
        message: expect.stringMatching(/larger than \d+ MB/),
      });
    });

    test('may be replaced while the version cannot run yet', async () => {
      const { key } = await target().addUser('up-again');
      const client = clientOf(target(), key);
      const { agent, upload: first } = await publishCode(client, 'again', { 'main.py': 'print(1)' });
      expect(first.status).toBe('active');
      expect(agent.runnable).toBe(false);
      const { agent: second } = await client.createAgent({ body: { ...TOOL, name: 'again' } });
      expect(
        (await client.uploadBundle({ params: { id: second.id }, body: bundleForm(zipOf({ 'main.py': 'print(2)' })) }))
          .status,
      ).toBe('active');
      expect((await client.getAgent({ params: { id: second.id } })).runnable).toBe(true);
    });
  });
}
