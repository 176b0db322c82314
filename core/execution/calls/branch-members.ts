import * as z from 'zod';
import { MAX_DURABLE_TURNS } from '#core/manifest/definition.ts';

const MAX_MESSAGE_CHARACTERS = 50_000;
const MAX_CHANGED_RESULTS = 100;
/** Limit of one result, as of those that tools give (`docs/interface/loops.md#bounds`). */
const MAX_RESULT_BYTES = 16 * 1024;

/** Members of a replay that begins from a turn (`docs/interface/branches.md`). */
export const branchMembers = {
  from_turn: z
    .int()
    .min(1)
    .max(MAX_DURABLE_TURNS)
    .optional()
    .describe('Begins again from this turn of a durable loop, with all that the run did before it.'),
  message: z
    .string()
    .max(MAX_MESSAGE_CHARACTERS)
    .regex(/\S/, 'must not be blank')
    .optional()
    .describe('With `from_turn`: a message that the model gets before that turn.'),
  tool_results: z
    .array(
      z.strictObject({
        turn: z.int().min(1).describe('A turn before `from_turn`.'),
        call: z.int().min(1).describe('Number of the call in its turn, from 1.'),
        text: z
          .string()
          .refine((text) => Buffer.byteLength(text) <= MAX_RESULT_BYTES, 'must have at most 16,384 bytes')
          .describe('The result. It is an error if it begins with `[ERROR]`.'),
      }),
    )
    .min(1)
    .max(MAX_CHANGED_RESULTS)
    .optional()
    .describe('With `from_turn`: results that the model sees in place of the recorded ones.'),
  model: z
    .string()
    .min(1)
    .max(250)
    .optional()
    .describe('With `from_turn`: the model that continues, as `provider/model`.'),
};
