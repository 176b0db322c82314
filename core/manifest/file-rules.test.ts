import { expect, test } from 'vitest';
import { type FileRules, fileRulesOf, isAcceptEntry } from './file-rules.ts';

const none = { input_schema: null };

test.each<[string, Parameters<typeof fileRulesOf>[0], Partial<FileRules>]>([
  ['nothing', none, {}],
  [
    'members',
    { ...none, accepts_files: false, accept: ['.pdf'], max_files: 2 },
    { accepts: false, accept: ['.pdf'], max: 2 },
  ],
  ['null', { ...none, accepts_files: null, accept: null, max_files: null }, {}],
  [
    'the top of the schema',
    { input_schema: { accepts_files: true, accept: '.PDF, image/*', max_files: 3 } },
    { accept: ['.pdf', 'image/*'], max: 3 },
  ],
  ['a refusal in the schema', { input_schema: { accepts_files: false } }, { accepts: false }],
  [
    'the property for the files',
    { input_schema: { properties: { a: {}, file: { accepts_files: true, accept: ['.csv'], max_files: 1 } } } },
    { accept: ['.csv'], max: 1 },
  ],
  ['a property for something else', { input_schema: { properties: { a: { accept: '.csv', max_files: 1 } } } }, {}],
  [
    'members before the schema',
    { input_schema: { accept: '.csv', max_files: 9 }, accept: ['.pdf'] },
    { accept: ['.pdf'], max: 9 },
  ],
  ['nonsense in the schema', { input_schema: { accepts_files: 'yes', accept: { a: 1 }, max_files: -1 } }, {}],
  ['no types at all', { input_schema: { accept: 'pdf, ; DROP' } }, {}],
])('%s', (_, definition, expected) => {
  expect(fileRulesOf(definition)).toEqual({ accepts: true, accept: [], max: null, ...expected });
});

test('types are media types and extensions', () => {
  for (const entry of ['.pdf', '.tar.gz', 'image/*', 'application/vnd.ms-excel', '*/*', ' Image/PNG ']) {
    expect(isAcceptEntry(entry)).toBe(true);
  }
  for (const entry of ['pdf', '', '.', 'image', 'image/', '*', '*/png', 'a b/c', 'text/plain; charset=utf-8']) {
    expect(isAcceptEntry(entry)).toBe(false);
  }
});
