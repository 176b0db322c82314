/** Input and output of agents that answer a text. */
export const TEXT_INPUT = {
  input: { input: 'Say hello in one sentence.' },
  inputSchema: {
    type: 'object',
    required: ['input'],
    properties: { input: { type: 'string', description: 'What the agent is asked.', minLength: 1 } },
  },
  outputSchema: { type: 'object', required: ['output'], properties: { output: { description: 'The answer.' } } },
} as const;
