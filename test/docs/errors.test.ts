import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { ERROR_CODES, httpStatusOf, isRetryable } from '#core/base/errors.ts';
import { blocksOf, COMMAND_PAGES, errorCodeOf, ROOT } from './pages.ts';

const read = (page: string): string => readFileSync(join(ROOT, page), 'utf8');
const rowOf = (code: (typeof ERROR_CODES)[number]): string =>
  `| ${httpStatusOf(code)} | ${isRetryable(code) ? 'yes' : 'no'} |`;

test('each error code has a page, and each page a code', () => {
  const pages = COMMAND_PAGES.filter((page) => page.startsWith('docs/errors/')).map((page) => basename(page, '.md'));
  expect(pages.sort()).toEqual([...ERROR_CODES, 'README'].sort());
});

test('the table of error codes has each code with its page, status and retry', () => {
  const rows = [...read('docs/errors/README.md').matchAll(/^\| \[`(\w+)`\]\(\1\.md\) (\| \d+ \| \w+ \|)/gm)];
  expect(rows.map(([, code, row]) => [code, row])).toEqual(ERROR_CODES.map((code) => [code, rowOf(code)]));
});

test.each(ERROR_CODES)('the page of %s has its status, and an example with this code', (code) => {
  const page = `docs/errors/${code}.md`;
  const text = read(page);
  expect(errorCodeOf(page)).toBe(code);
  expect(text.startsWith(`# ${code}\n`)).toBe(true);
  expect(text).toContain(`\n| status | retryable |\n| --- | --- |\n${rowOf(code)}\n`);
  const examples = blocksOf(page).filter(({ info }) => info === 'json');
  expect(examples).toHaveLength(1);
  expect(JSON.parse(examples[0]!.text)).toMatchObject({
    error: { code, message: expect.stringMatching(/\w/), is_retryable: isRetryable(code) },
    metadata: { request_id: 'req_...' },
  });
});
