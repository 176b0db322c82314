import { expect, test } from 'vitest';
import { readSuiteFiles, withoutTopFolder } from './suite-files.ts';

const chosen = (files: Readonly<Record<string, string>>) =>
  Object.entries(files).map(([path, text]) => ({ path, file: new Blob([text]) }));
const sent = async (files: Readonly<Record<string, string>>) =>
  Object.fromEntries((await readSuiteFiles(withoutTopFolder(chosen(files)))).map(({ name, text }) => [name, text]));

const naming = (name: string) => `tests: [{assert: [{type: python, value: file://${name}}]}]`;

test('of the folder of an agent, the suites in evals and what they name are sent', async () => {
  const files = {
    'greeter/agent.json': '{}',
    'greeter/evals/a.yaml': naming('./checks/short.py'),
    'greeter/evals/b.json': naming('beside.py'),
    'greeter/evals/beside.py': 'b',
    'greeter/evals/old/c.yaml': 'tests: []',
    'greeter/checks/short.py': 's',
    'greeter/main.py': 'm',
  };
  expect(await sent(files)).toEqual({
    'evals/a.yaml': files['greeter/evals/a.yaml'],
    'evals/b.json': files['greeter/evals/b.json'],
    'beside.py': 'b',
    'checks/short.py': 's',
  });
});

test('files that are chosen alone are found by their last name, and are then no suites', async () => {
  const suite = naming('schemas/label.json');
  expect(await sent({ 'a.yaml': suite, 'label.json': '{}', 'notes.txt': 'n' })).toEqual({
    'a.yaml': suite,
    'schemas/label.json': '{}',
  });
});

test('a file that is named and was not chosen is left to the API', async () => {
  expect(await sent({ 'a.yaml': naming('gone.py') })).toEqual({ 'a.yaml': naming('gone.py') });
});

test('without a suite, or with more than a megabyte, nothing is sent', async () => {
  await expect(sent({ 'main.py': '' })).rejects.toThrow('No suite is among the files');
  await expect(readSuiteFiles([])).rejects.toThrow('No suite is among the files');
  await expect(sent({ 'a.yaml': 'x'.repeat(2 ** 20 + 1) })).rejects.toThrow('at most 1048576 are allowed');
  const two = { 'a.yaml': naming('b.py'), 'b.py': 'x'.repeat(2 ** 20) };
  await expect(sent(two)).rejects.toThrow('Choose some of them');
});
