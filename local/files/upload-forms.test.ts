import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { createUpload, purgeUploads } from '#core/agents/uploads/store.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { uploadFormsConformance } from '#test/conformance/upload-forms.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { filledForm } from '#test/helpers/uploads.ts';
import { webResponse } from '#test/helpers/web-app.ts';
import { FolderBlobs } from './folder-blobs.ts';
import { LocalUploadForms } from './upload-forms.ts';

const MB = 1024 ** 2;
const folder = mkdtempSync(join(tmpdir(), 'uploads-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const clock = new ManualClock();
const blobs = new FolderBlobs(folder);
const ids = new SystemIds();
let problem: string | undefined;
const space = { problem: async () => problem };
const make = () =>
  new LocalUploadForms({ blobs, space, clock, ids }, { baseUrl: 'http://platform.test', maxBytes: 10 * MB });
const forms = make();
/** Passes the request as it arrives over the wire: its body is always bytes. */
async function accept(body: RequestInit['body'], headers: Record<string, string> = {}, to = forms) {
  const given = new Response(body, { headers });
  const contentType = given.headers.get('content-type') ?? '';
  const answer = await to.accept(
    new Request('http://platform.test/uploads/form', {
      method: 'POST',
      body: body instanceof FormData ? await given.bytes() : body,
      headers: { ...headers, 'content-type': contentType },
      ...{ duplex: 'half' },
    }),
  );
  return webResponse(answer);
}

uploadFormsConformance(() => ({
  forms,
  blobs,
  now: () => clock.now(),
  post: async (_, body) => (await accept(body)).status,
}));

describe('the local host', () => {
  const newForm = (key: string, maxBytes = MB) => forms.create({ key, maxBytes, expiresAt: clock.now() + 60_000 });
  const refused = async (answer: Response, status: number, message: string) => {
    expect(answer.status).toBe(status);
    const { error, metadata } = (await answer.json()) as { error: { message: string }; metadata: object };
    expect(error.message).toContain(message);
    expect(metadata).toEqual({ request_id: expect.stringMatching(/^req_/) });
  };

  test('takes POSTs of its own path only', () => {
    const takes = (url: string, method = 'POST') => forms.takes(new Request(url, { method }));
    expect(takes('http://platform.test/uploads/form')).toBe(true);
    expect(takes('http://platform.test/uploads/form', 'PUT')).toBe(false);
    expect(takes('http://platform.test/acme/agent/uploads/form')).toBe(false);
    expect(takes('http://platform.test/a?x=/uploads/form')).toBe(false);
  });

  test('fields that stand after the file do not count', async () => {
    const { fields } = await newForm('uploads/late');
    const body = new FormData();
    body.set('file', new Blob(['x']), 'file');
    for (const [name, value] of Object.entries(fields)) body.set(name, value);
    await refused(await accept(body), 403, 'after the file');
  });

  test('a size that is not declared is counted, and nothing half sent stays', async () => {
    const form = await newForm('uploads/stream');
    const whole = new Response(filledForm(form, new Uint8Array(8 * MB)));
    const headers = { 'content-type': whole.headers.get('content-type')! };
    const bodyParts = [new Uint8Array(await whole.arrayBuffer())];
    await refused(await accept(ReadableStream.from(bodyParts), headers), 413, '1 MB');

    const cut = new Response(filledForm(form, new Uint8Array(MB / 2)));
    const bytes = new Uint8Array(await cut.arrayBuffer()).subarray(0, MB / 4);
    const type = cut.headers.get('content-type')!;
    await refused(await accept(bytes, { 'content-type': type }), 400, 'Unexpected end of form');

    async function* breaks() {
      yield bytes;
      throw new Error('the line is cut');
    }
    await refused(await accept(ReadableStream.from(breaks()), { 'content-type': type }), 400, 'the line is cut');
    expect(await blobs.get('uploads/stream')).toBeUndefined();
    expect(readdirSync(join(folder, '+tmp'))).toEqual([]);
  });

  test('an upload stops when the disk is nearly full, and leaves nothing', async () => {
    const form = await newForm('uploads/full');
    const whole = new Response(filledForm(form, new Uint8Array(MB / 2)));
    const headers = { 'content-type': whole.headers.get('content-type')! };
    const bytes = new Uint8Array(await whole.arrayBuffer());
    async function* fills() {
      yield bytes.subarray(0, MB / 4);
      problem = 'The disk is nearly full.';
      yield bytes.subarray(MB / 4);
    }
    onTestFinished(() => {
      problem = undefined;
    });
    await refused(await accept(ReadableStream.from(fills()), headers), 429, 'nearly full');
    expect(await blobs.get('uploads/full')).toBeUndefined();
    expect(readdirSync(join(folder, '+tmp'))).toEqual([]);
    await refused(await accept(filledForm(form, 'x')), 429, 'nearly full');
    problem = undefined;
    expect((await accept(filledForm(form, 'x'))).status).toBe(204);
  });

  test('a form takes one upload at a time, so that no more is written than it allows', async () => {
    const form = await newForm('uploads/twice');
    const whole = new Response(filledForm(form, new Uint8Array(MB / 2)));
    const headers = { 'content-type': whole.headers.get('content-type')! };
    const bytes = new Uint8Array(await whole.arrayBuffer());
    const second = Promise.withResolvers<void>();
    async function* halves() {
      yield bytes.subarray(0, MB / 4);
      await second.promise;
      yield bytes.subarray(MB / 4);
    }
    const first = accept(ReadableStream.from(halves()), headers);
    await expect.poll(() => readdirSync(join(folder, '+tmp'))).toHaveLength(1);
    await refused(await accept(filledForm(form, 'x')), 429, 'in progress');
    second.resolve();
    expect((await first).status).toBe(204);
    expect((await accept(filledForm(form, 'x'))).status).toBe(204);
  });

  test('more than any form allows is refused before it is read', async () => {
    const answer = await accept('x', {
      'content-type': 'multipart/form-data; boundary=B',
      'content-length': String(100 * MB),
    });
    await refused(answer, 413, '10 MB');
  });

  test('a form of another process, or of none, is refused', async () => {
    const form = await make().create({ key: 'uploads/x', maxBytes: MB, expiresAt: clock.now() + 60_000 });
    await refused(await accept(filledForm(form, 'x')), 403, 'Forms become invalid when the platform restarts');
    await refused(await accept(filledForm({ url: '', fields: {} }, 'x')), 403, 'do not match a form');
    await refused(await accept('{}', { 'content-type': 'application/json' }), 400, 'multipart/form-data');
  });

  test('what has expired is removed, what has not stays', async () => {
    const deps = { ...memoryDeps(), uploadForms: forms };
    const workspace: Workspace = { id: 'w', slug: 'w', name: 'w', type: 'team', createdAt: '' };
    const uploads = [await createUpload(deps, workspace, 'call'), await createUpload(deps, workspace, 'bundle')];
    await deps.blobs.put(`uploads/w/call/${uploads[0]!.upload_id}`, Buffer.from('x'));
    await deps.clock.advance(1000);
    const late = await createUpload(deps, workspace, 'call');
    await deps.blobs.put(`uploads/w/call/${late.upload_id}`, Buffer.from('y'));
    await deps.blobs.put('bundles/x', Buffer.from('z'));
    await deps.clock.advance(Date.parse(uploads[0]!.expires_at) - deps.clock.now());
    await purgeUploads(deps);
    expect(await Array.fromAsync(deps.blobs.list(''))).toEqual(['bundles/x', `uploads/w/call/${late.upload_id}`]);
  });
});
