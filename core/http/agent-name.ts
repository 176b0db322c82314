import * as z from 'zod';

/** Schema of an agent without a version: `org/name`. */
export const agentName = z
  .string()
  .regex(/^[a-z0-9-]{1,64}\/[a-z0-9-]{1,64}$/, 'must be org/agent, such as main/triage');
