import { beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '#core/api/client.ts';
import { clientOf, needsModel, publishCode, request, type Target, zipOf } from '#test/helpers/platform.ts';
import { filledForm, postForm, upload } from '#test/helpers/uploads.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk, ISO_TIME } from '../expect.ts';
import type { Languages } from '../languages.ts';

const MB = 1024 ** 2;
const UPLOADED_JSON = { 'content-type': 'application/vnd.platform.upload+json' };

/** Content too large for a request: it is uploaded first, then named in the request. */
export function uploadsSuite(target: () => Target, { python: hasPython }: Languages): void {
  describe.concurrent('uploads', () => {
    let user: TestUser;
    let client: Client;
    let stranger: TestUser;

    beforeAll(async () => {
      user = await target().addUser('uploader');
      stranger = await target().addUser('upload-stranger');
      client = clientOf(target(), user.key);
      const json = { name: 'ANTHROPIC_API_KEY', value: `sk-uploads-${user.userId}` };
      for (const { workspaceId, key } of [user, stranger]) {
        expectOk(await request(target(), 'PUT', `/workspaces/${workspaceId}/secrets`, { key, json }));
      }
      const prompt = { type: 'prompt', supported_providers: ['anthropic'], is_public: true };
      const loop = { type: 'agent', required_secrets: [], is_public: true };
      await client.createAgent({ body: { ...loop, name: 'reads', description: 'Reads.', prompt: 'Read.' } });
      await client.createAgent({
        body: {
          ...{ ...prompt, name: 'greets', description: 'Greets.', prompt: 'Say {{name}}.' },
          // The model's name sets a window for an input longer than real models read.
          default_models: { anthropic: 'reader-window-9000000' },
        },
      });
    });

    const call = (agent: string, body: FormData | object, headers: Record<string, string> = {}, key = user.key) =>
      request(target(), 'POST', `/uploader/${agent}/v1/run`, {
        key,
        headers,
        ...(body instanceof FormData ? { body } : { json: body }),
      });
    const naming = (uploads: unknown): FormData => {
      const form = new FormData();
      form.set('uploads', JSON.stringify(uploads));
      return form;
    };
    const inputOf = async (runId: string | null) =>
      expectOk(await request(target(), 'GET', `/workspaces/${user.workspaceId}/runs/${runId}`, { key: user.key }))
        .input_data;

    test('a form names its address, maximum size and expiry', async () => {
      const form = await client.createUpload({ body: { purpose: 'call' } });
      expect(form).toEqual({
        upload_id: expect.stringMatching(/^upl_\d{10}_[0-9a-f]{32}$/),
        url: expect.stringMatching(/^http/),
        fields: expect.any(Object),
        max_bytes: 25 * MB,
        expires_at: expect.stringMatching(ISO_TIME),
      });
      const lifetime = Date.parse(form.expires_at) - Date.now();
      expect(lifetime).toBeGreaterThan(3_500_000);
      expect(lifetime).toBeLessThan(3_700_000);
      expect((await client.createUpload({ body: { purpose: 'bundle' } })).max_bytes).toBe(25 * MB);
      expect(JSON.stringify(form)).not.toContain(user.key);
    });

    test('an unknown purpose is refused', async () => {
      const answer = await request(target(), 'POST', '/uploads', { key: user.key, json: { purpose: 'other' } });
      expectError(answer, 400, 'INVALID_INPUT', 'body.purpose');
    });

    test('uploaded files follow the files of the request, under the names that the call gives them', async () => {
      needsModel(target());
      const id = await upload(client, new Uint8Array(6 * MB));
      const body = naming([{ upload_id: id, name: '../große.bin', content_type: 'image/x' }, { upload_id: id }]);
      body.append('files[]', new Blob(['small'], { type: 'text/csv' }), 'small.csv');
      body.set('metadata', '{"note":1}');
      const answer = await call('reads', body);
      expectOk(answer);
      const size_bytes = 6 * MB;
      expect(await inputOf(answer.headers.get('x-run-id'))).toEqual({
        files: [
          { path: '/tmp/uploads/0_small.csv', original_name: 'small.csv', content_type: 'text/csv', size_bytes: 5 },
          {
            path: expect.stringMatching(/^\/tmp\/uploads\/1_[\w.-]+\.bin$/),
            original_name: '../große.bin',
            content_type: 'image/x',
            size_bytes,
          },
          {
            path: '/tmp/uploads/2_file',
            original_name: 'file',
            content_type: 'application/octet-stream',
            size_bytes,
          },
        ],
        metadata: { note: 1 },
      });
    });

    test.skipIf(!hasPython)('a program reads uploaded files', async () => {
      const code = `import json,sys\nd=json.load(sys.stdin)\nprint(json.dumps([open(f["path"]).read() for f in d["files"]]))`;
      await publishCode(client, 'opens', { 'main.py': code });
      const ids = [await upload(client, 'one ü'), await upload(client, 'two')];
      const answer = await call('opens', naming(ids.map((upload_id) => ({ upload_id }))));
      expect(expectOk(answer).data).toEqual(['one ü', 'two']);
    });

    test('an upload may be the JSON input itself', async () => {
      needsModel(target());
      const name = `N${'n'.repeat(5 * MB)}`;
      const id = await upload(client, JSON.stringify({ name, llm_credentials: { api_key: 'sk-ant-uploads' } }));
      const answer = await call('greets', { upload_id: id }, UPLOADED_JSON);
      expectOk(answer);
      const sent = target().llm.requests.find((each) => each.apiKey === 'sk-ant-uploads');
      expect(sent?.text).toContain(`Say ${name}.`);
      expect(await inputOf(answer.headers.get('x-run-id'))).toEqual({ name });
    });

    test('input for a model has 10 MB at most, whatever its agent', async () => {
      const id = await upload(client, JSON.stringify({ name: 'n'.repeat(10 * MB) }));
      for (const agent of ['greets', 'reads']) {
        const answer = await call(agent, { upload_id: id }, UPLOADED_JSON);
        const { hint } = expectError(answer, 413, 'DOCUMENT_TOO_LARGE', '10,485,771 bytes of JSON');
        expect(hint).toContain('as a file');
      }
    });

    test('an ordinary input may have a member upload_id', async () => {
      needsModel(target());
      const answer = await call('reads', { upload_id: 'upl_mine' });
      expectOk(answer);
      expect(await inputOf(answer.headers.get('x-run-id'))).toEqual({ upload_id: 'upl_mine' });
    });

    test('an upload that is not a JSON object is refused as input', async () => {
      for (const [content, message] of [
        ['{"password":"hunter2', 'The upload is not valid JSON'],
        ['[1]', 'an array'],
      ] as const) {
        const answer = await call('reads', { upload_id: await upload(client, content) }, UPLOADED_JSON);
        expect(expectError(answer, 400, 'INVALID_INPUT', message).message).not.toContain('hunter2');
      }
    });

    test('a call may be repeated with its upload, but not with other content', async () => {
      needsModel(target());
      const form = await client.createUpload({ body: { purpose: 'call' } });
      const send = () =>
        call('reads', naming([{ upload_id: form.upload_id }]), { 'idempotency-key': form.upload_id.slice(-20) });
      await postForm(form.url, filledForm(form, 'first'));
      const first = await send();
      expectOk(first);
      const again = await send();
      expect(again.body).toEqual(first.body);
      expect(again.headers.get('idempotent-replayed')).toBe('true');
      expect(await postForm(form.url, filledForm(form, 'other'))).toBe(204);
      expectError(await send(), 409, 'CONFLICT');
    });

    test('an upload may be a bundle', async () => {
      const body = { name: 'large-tool', type: 'tool', description: 'is large', required_secrets: [] };
      const { agent } = await client.createAgent({ body });
      const noise = Buffer.from(crypto.getRandomValues(new Uint8Array(60_000))).toString('hex');
      const zip = zipOf({ 'main.py': 'print("{}")', 'data.txt': noise.repeat(60) });
      const params = { id: agent.id };
      const id = await upload(client, zip, 'bundle');
      const answer = await client.uploadBundle({
        params,
        body: { upload_id: id },
        headers: { 'x-entrypoint': 'main.py' },
      });
      expect(answer).toMatchObject({ success: true, size_bytes: zip.byteLength, entrypoint: 'main.py' });
      const stored = await client.downloadOwnBundle({ params });
      expect(Buffer.from(await stored.arrayBuffer()).equals(zip)).toBe(true);

      const send = (json: unknown, key = user.key) =>
        request(target(), 'POST', `/agents/${agent.id}/upload`, { key, json });
      for (const wrong of [{}, null, [], { upload_id: 7 }]) {
        expectError(await send(wrong), 400, 'INVALID_INPUT', '{"upload_id"');
      }
      expectError(await send({ upload_id: id }, stranger.key), 404, 'NOT_FOUND');
      expectError(await send({ upload_id: await upload(client, zip) }), 404, 'NOT_FOUND', 'for a bundle');
      expectError(await send({ upload_id: await upload(client, 'no zip', 'bundle') }), 400, 'INVALID_INPUT');
    });

    test('a missing or expired upload, or one for another purpose or workspace, is not found', async () => {
      needsModel(target());
      const hex = '0'.repeat(32);
      const form = await client.createUpload({ body: { purpose: 'call' } });
      const foreign = await upload(clientOf(target(), stranger.key), 'secret');
      const cases: [string, string][] = [
        [form.upload_id, 'nothing was uploaded'],
        [`upl_9999999999_${hex}`, 'There is no upload'],
        [`upl_1000000000_${hex}`, 'has expired'],
        [await upload(client, 'x', 'bundle'), 'There is no upload'],
        [foreign, 'in this workspace'],
        // The id contains its expiry, so a changed expiry makes it a different id.
        [foreign.replace(/_\d+_/, '_9999999999_'), 'There is no upload'],
      ];
      for (const [id, message] of cases) {
        expectError(await call('reads', naming([{ upload_id: id }])), 404, 'NOT_FOUND', message);
        expectError(await call('reads', { upload_id: id }, UPLOADED_JSON), 404, 'NOT_FOUND', message);
      }
      // The uploader's own workspace can use it with any agent.
      expectOk(await call('reads', naming([{ upload_id: foreign }]), {}, stranger.key));
    });

    test('no upload id escapes the folder of uploads', async () => {
      const hex = '0'.repeat(32);
      for (const id of [
        '../../bundles/x',
        `../${stranger.workspaceId}/call/upl_9999999999_${hex}`,
        `upl_9999999999_${hex}/..`,
        `upl_9999999999_${hex}\n`,
        '',
        'x'.repeat(10_000),
      ]) {
        expectError(await call('reads', naming([{ upload_id: id }])), 400, 'INVALID_INPUT', 'is not an upload_id');
      }
    });

    test.each<[string, unknown, string]>([
      ['no list', { upload_id: 'x' }, '"uploads" is invalid'],
      ['a list of ids', ['x'], 'at 0'],
      ['of an unknown member', [{ upload_id: 'x', path: '/etc/passwd' }], 'path'],
      ['of a name that is none', [{ upload_id: 'x', name: 7 }], 'at 0.name'],
      ['of more than 100', Array.from({ length: 101 }, () => ({ upload_id: 'x' })), '100'],
    ])('a part "uploads" that is %s is refused', async (_, uploads, message) => {
      expectError(await call('reads', naming(uploads)), 400, 'INVALID_INPUT', message);
    });

    test('the files of a call are limited to 25 MB in all', async () => {
      needsModel(target());
      const id = await upload(client, new Uint8Array(9 * MB));
      const body = naming(Array.from({ length: 3 }, () => ({ upload_id: id })));
      expectError(await call('reads', body), 413, 'DOCUMENT_TOO_LARGE', '25 MB');
      const two = naming(Array.from({ length: 2 }, () => ({ upload_id: id })));
      expectOk(await call('reads', two));

      const form = await client.createUpload({ body: { purpose: 'call' } });
      expect(await postForm(form.url, filledForm(form, new Uint8Array(25 * MB + 1)))).toBeOneOf([400, 413]);
      expectError(await call('reads', naming([{ upload_id: form.upload_id }])), 404, 'NOT_FOUND');
    });

    test('a form whose key was changed is refused', async () => {
      const form = await client.createUpload({ body: { purpose: 'call' } });
      for (const [name, value] of Object.entries(form.fields)) {
        if (!value.includes(user.workspaceId)) continue;
        const fields = { ...form.fields, [name]: value.replace(user.workspaceId, stranger.workspaceId) };
        expect(await postForm(form.url, filledForm({ ...form, fields }, 'x'))).toBe(403);
      }
      const fields = { ...form.fields, key: `uploads/${stranger.workspaceId}/call/${form.upload_id}` };
      await postForm(form.url, filledForm({ ...form, fields }, 'x'));
      const answer = await call('reads', naming([{ upload_id: form.upload_id }]), {}, stranger.key);
      expectError(answer, 404, 'NOT_FOUND');
    });
  });
}
