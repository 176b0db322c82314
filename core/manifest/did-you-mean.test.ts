import { expect, test } from 'vitest';
import { didYouMean } from './did-you-mean.ts';

const KNOWN = ['command', 'max_turns', 'custom_tools', 'id', 'python_version'];

test.each([
  ['comand', 'command'],
  ['comamnd', 'command'],
  ['maxTurns', 'max_turns'],
  ['max-turn', 'max_turns'],
  ['tools', 'custom_tools'],
  ['python', 'python_version'],
  ['ID', 'id'],
  ['of', undefined],
  ['language', undefined],
  ['x'.repeat(100_000), undefined],
])('%s: %s', (name, meant) => expect(didYouMean(name, KNOWN)).toBe(meant));
