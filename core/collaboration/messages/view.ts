import type * as z from 'zod';
import type { messageSchema } from './routes.ts';
import type { Message } from './store.ts';

export const messageView = ({ agentName, createdAt, ...message }: Message): z.output<typeof messageSchema> => ({
  ...message,
  agent_name: agentName,
  created_at: createdAt,
});
