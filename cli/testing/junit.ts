import type { TestResult } from './run-tests.ts';

/** Formats the results as JUnit XML, which CI systems support. */
export function junit(suite: string, results: readonly TestResult[]): string {
  const cases = results.map(({ name, file, status, seconds, failures, notes = [] }) => {
    const open = `  <testcase classname="${escaped(suite)}" name="${escaped(name)}" file="${escaped(file)}" time="${seconds.toFixed(3)}"`;
    const text = escaped(failures.join('\n'));
    const inner = [
      ...(status === 'passed' ? [] : [`<${status === 'skipped' ? 'skipped' : 'failure'} message="${text}"/>`]),
      ...(notes.length === 0 ? [] : [`<system-out>${escaped(notes.join('\n'))}</system-out>`]),
    ];
    return inner.length === 0 ? `${open}/>` : `${open}>${inner.join('')}</testcase>`;
  });
  const count = (status: TestResult['status']): number => results.filter((each) => each.status === status).length;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuite name="${escaped(suite)}" tests="${results.length}" failures="${count('failed')}" skipped="${count('skipped')}">`,
    ...cases,
    '</testsuite>\n',
  ].join('\n');
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  '\n': '&#10;',
};
const escaped = (text: string): string =>
  text
    .replaceAll(/[&<>"\n]/g, (character) => ENTITIES[character]!)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: XML 1.0 allows none of these.
    .replaceAll(/[\u0000-\u0008\u000b-\u001f\ufffe\uffff]/g, '');
