import { beforeAll, describe, expect, test } from 'vitest';
import type { Blobs } from '#core/ports/blobs.ts';
import type { UploadForm, UploadForms } from '#core/ports/upload-forms.ts';
import { filledForm } from '#test/helpers/uploads.ts';

export interface UploadFormsHost {
  readonly forms: UploadForms;
  readonly blobs: Blobs;
  /** Epoch milliseconds. */
  now(): number;
  /** Sends a form and returns the status. */
  post(url: string, body: FormData): Promise<number>;
}

/** Rules for every adapter of the port {@link UploadForms}. */
export function uploadFormsConformance(make: () => Promise<UploadFormsHost> | UploadFormsHost): void {
  describe.concurrent('forms for uploads', () => {
    let host: UploadFormsHost;
    let made = 0;
    beforeAll(async () => {
      host = await make();
    });

    async function newForm({ maxBytes = 100, lifetimeMs = 600_000 } = {}) {
      made += 1;
      const key = `uploads/w/call/u${made}`;
      return { key, form: await host.forms.create({ key, maxBytes, expiresAt: host.now() + lifetimeMs }) };
    }
    const send = (form: UploadForm, content: string | Uint8Array) => host.post(form.url, filledForm(form, content));
    const textOf = async (key: string) => {
      const bytes = await host.blobs.get(key);
      return bytes && Buffer.from(bytes).toString();
    };

    test('a form takes a file, and another one in its place', async () => {
      const { key, form } = await newForm();
      expect(await send(form, 'first ü')).toBe(204);
      expect(await textOf(key)).toBe('first ü');
      expect(await send(form, 'second')).toBe(204);
      expect(await textOf(key)).toBe('second');
    });

    test('a file may have all the bytes that the form allows, or none', async () => {
      const maxBytes = 6 * 1024 ** 2;
      const { key, form } = await newForm({ maxBytes });
      expect(await send(form, new Uint8Array(maxBytes).fill(7))).toBe(204);
      expect(await host.blobs.size(key)).toBe(maxBytes);
      expect(await send(form, '')).toBe(204);
      expect(await host.blobs.size(key)).toBe(0);
    });

    test('one byte more is refused, and what was there stays', async () => {
      const { key, form } = await newForm({ maxBytes: 100 });
      expect(await send(form, 'x'.repeat(101))).toBeOneOf([400, 413]);
      expect(await host.blobs.get(key)).toBeUndefined();
      await send(form, 'before');
      expect(await send(form, 'x'.repeat(1_000_000))).toBeOneOf([400, 413]);
      expect(await textOf(key)).toBe('before');
    });

    test('a form that has expired is refused', async () => {
      const { key, form } = await newForm({ lifetimeMs: -1000 });
      expect(await send(form, 'late')).toBe(403);
      expect(await host.blobs.get(key)).toBeUndefined();
    });

    test('no field may be changed, left out or taken from another form', async () => {
      const { key, form } = await newForm();
      const other = (await newForm({ maxBytes: 200 })).form;
      for (const [name, value] of Object.entries(form.fields)) {
        // S3 takes the bucket from the URL.
        if (name === 'bucket') continue;
        const changed = value.slice(0, -2) + (value.endsWith('AA') ? 'BB' : 'AA');
        const { [name]: _, ...without } = form.fields;
        for (const fields of [{ ...form.fields, [name]: changed }, without]) {
          expect(await send({ ...form, fields }, 'forged'), name).toBeOneOf([400, 403]);
        }
        // A field with the same value in both forms is not a forgery.
        if (other.fields[name] === value) continue;
        const fields = { ...form.fields, [name]: other.fields[name]! };
        expect(await send({ ...form, fields }, 'forged'), name).toBeOneOf([400, 403]);
      }
      expect(await host.blobs.get(key)).toBeUndefined();
    });

    test('a form without a file is refused', async () => {
      const { form } = await newForm();
      const body = filledForm(form, '');
      body.delete('file');
      expect(await host.post(form.url, body)).toBe(400);
    });

    test.each(['../w', 'a//b', '/a', 'a b'])('there is no form for the key %j', async (key) => {
      await expect(host.forms.create({ key, maxBytes: 1, expiresAt: host.now() + 1000 })).rejects.toThrow(
        'a blob key has segments',
      );
    });
  });
}
