import { expect, test } from 'vitest';
import type { AgentVersion } from '#core/manifest/version.ts';
import { executable, jpeg, pdf } from '#test/helpers/sample-files.ts';
import type { Upload } from './call-input.ts';
import { checkFiles } from './check-files.ts';

const upload = (name: string, content: Buffer, contentType = 'application/octet-stream'): Upload => ({
  path: `/tmp/uploads/0_${name}`,
  name,
  content,
  contentType,
});
const check = (accept: string[] | undefined, ...uploads: Upload[]): void => {
  const definition = { input_schema: null, prompt: null, ...(accept && { accept }) };
  const agent = { orgSlug: 'acme', version: 1, definition: { name: 'a', ...definition } } as unknown as AgentVersion;
  checkFiles(agent, { document: {}, uploads, isMultipart: true });
};

test('without a list, every file is accepted', () => {
  const files = [upload('a.exe', executable()), upload('b.csv', Buffer.from('a,b')), upload('c', Buffer.alloc(0))];
  expect(() => check(undefined, ...files)).not.toThrow();
  expect(() => check([], ...files)).not.toThrow();
});

test.each<[string, Upload, boolean]>([
  ['.pdf', upload('stdin', pdf()), true],
  ['.pdf', upload('a.pdf', executable(), 'application/pdf'), false],
  ['image/*', upload('a', jpeg()), true],
  ['image/jpg', upload('a', jpeg()), true],
  ['image/png', upload('a.png', jpeg(), 'image/png'), false],
  ['text/*', upload('a.pdf', Buffer.from('text')), true],
  ['text/csv', upload('a', Buffer.from('a,b'), 'text/csv; charset=utf-8'), true],
  ['text/csv', upload('a.csv', Buffer.from('a,b'), 'text/html'), false],
  ['image/png', upload('a.png', Buffer.from('text'), 'image/png'), false],
  ['.log', upload('A.LOG', Buffer.from('x')), true],
  ['.log', upload('a.log', executable()), false],
  ['*/*', upload('a', executable()), true],
])('%s: %o', (entry, file, isAccepted) => {
  const attempt = () => check([entry], file);
  if (isAccepted) expect(attempt).not.toThrow();
  else expect(attempt).toThrow(expect.objectContaining({ code: 'UNSUPPORTED_TYPE' }));
});
