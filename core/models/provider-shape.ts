import * as z from 'zod';
import { COMPATIBLE, COMPATIBLE_NAME, LLM_PROVIDERS, PROVIDER_NAMES } from '#core/ports/llm.ts';

/** Name of a provider that a workspace has set up. */
export const compatibleName = z
  .string()
  .regex(COMPATIBLE_NAME, 'must be 1-40 lower-case letters, digits and single hyphens, with no hyphen at either end');

/** A provider that a manifest, a schedule or a call may name. */
export const providerShape = z.union(
  [z.enum(LLM_PROVIDERS), z.templateLiteral([`${COMPATIBLE}:`, compatibleName])],
  `must be one of ${PROVIDER_NAMES}`,
);
