/** What the page of a link shows: a conversation, or the fields of the agent's input and one answer. */
export const CHAT_KINDS = ['chat', 'form'] as const;
export type ChatKind = (typeof CHAT_KINDS)[number];
