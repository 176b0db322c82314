import * as z from 'zod';
import { suggestion } from '../did-you-mean.ts';

const texts = (about: string) => z.array(z.string('must be a text'), 'must be an array of texts').describe(about);

const SHAPE = {
  $schema: z.string('must be a text').describe('For editors; not read.').optional(),
  description: z.string('must be a text').describe('What is tested, shown with the result.').optional(),
  input: z.unknown().describe('The input of the call.'),
  files: texts('Files of the call: paths from the agent’s folder.').optional(),
  expected_output: z.unknown().describe('The output must be equal to it.').optional(),
  expected_contains: texts('Each must occur in the output, written as JSON without spaces.').optional(),
  expected_schema: z.unknown().describe('A JSON Schema that the output must match.').optional(),
  expected_error: z
    .string('must be a code such as "INVALID_INPUT"')
    .describe('The call must fail with this code.')
    .optional(),
  expected_tools: texts('The tools that a loop must call, in this order; others may come between.').optional(),
  max_cost_usd: z
    .number('must be a number of US dollars')
    .min(0, 'must not be negative')
    .describe('Maximum cost of the run, in US dollars.')
    .optional(),
  max_seconds: z
    .number('must be a number of seconds')
    .positive('must be more than 0')
    .describe('Maximum duration of the run.')
    .optional(),
  mocks: z
    .record(z.string(), z.unknown(), 'must be an object of tool -> answer')
    .describe('Name of a custom tool -> its answer in this test: a text, or JSON.')
    .optional(),
};

/** A file `tests/fixture-*.json`: a call and its expected answer. */
export const fixtureShape = z.strictObject(SHAPE, {
  error: ({ code, keys }) =>
    code === 'unrecognized_keys'
      ? `has "${keys?.[0]}", which is not a member of a fixture${suggestion(String(keys?.[0]), Object.keys(SHAPE))}`
      : 'must be an object',
});
