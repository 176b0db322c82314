import type { AgentDefinition } from '../definition.ts';
import { traitsOf } from '../engines.ts';
import { unknownMock, withMocks } from './mocked-tools.ts';
import { MAX_EVAL_RUNS, type ReadSuites, rowOfAssert, type Suite } from './suite.ts';

/** Why suites cannot be run on a version, as a sentence, and what helps. */
export interface Unsuited {
  /** INVALID_INPUT: the suites are wrong. UNPROCESSABLE: they do not fit the version. */
  readonly code: 'INVALID_INPUT' | 'UNPROCESSABLE';
  readonly problem: string;
  readonly hint: string;
}

/** Returns why there are too many runs in all; `undefined` if there are not. */
export function tooManyRuns({ suites, cases }: ReadSuites, versions: number): Unsuited | undefined {
  const runs = cases.reduce((sum, { suite }) => sum + suites[suite]!.repeat, 0) * versions;
  if (runs <= MAX_EVAL_RUNS) return undefined;
  const problem = `The suites have ${runs} runs (cases, times repeats, times versions), and at most ${MAX_EVAL_RUNS} are allowed.`;
  return { code: 'INVALID_INPUT', problem, hint: 'Lower "repeat", or leave out some of the files.' };
}

/**
 * Returns what would fail in every run on a version; `undefined` if nothing would.
 *
 * @param isBaseline Whether it is the version to compare with. It may lack tools: the suites are those of the other one.
 */
export function unsuited(
  definition: Pick<AgentDefinition, 'custom_tools' | 'durable' | 'execution_engine'>,
  { suites, cases }: ReadSuites,
  { isBaseline = false }: { readonly isBaseline?: boolean } = {},
): Unsuited | undefined {
  for (const suite of suites) {
    const found = unsuitedMocks(definition, suite, isBaseline);
    if (found !== undefined) return found;
  }
  const readsTrace = cases.some(({ asserts }) => asserts.some(({ type }) => rowOfAssert(type).readsTrace));
  if (!readsTrace || traitsOf(definition.execution_engine).hasLoop || isBaseline) return undefined;
  return {
    code: 'UNPROCESSABLE',
    problem: 'The agent has no tools, which asserts of the suites are about.',
    hint: 'Remove tool-called, tool-args, tool-order and max-turns.',
  };
}

function unsuitedMocks(
  { custom_tools, durable }: Pick<AgentDefinition, 'custom_tools' | 'durable'>,
  { mocks, name }: Suite,
  isBaseline: boolean,
): Unsuited | undefined {
  if (mocks === null) return undefined;
  const { unknown } = withMocks(custom_tools, mocks);
  if (unknown !== undefined && !isBaseline) {
    const problem = `${name}: ${unknownMock(unknown, custom_tools)}`;
    return { code: 'INVALID_INPUT', problem, hint: 'docs/evals.md describes the files.' };
  }
  if (durable === undefined) return undefined;
  return {
    code: 'UNPROCESSABLE',
    problem: `${name}: ${isBaseline ? 'The baseline' : 'The agent'} is durable, and runs of durable agents have no mocks.`,
    hint: 'Leave mocks out, or evaluate it without "durable".',
  };
}
