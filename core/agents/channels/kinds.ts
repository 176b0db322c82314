/** What a caller sticks by, in the order of preference. */
export const STICKS = ['tenant', 'session', 'key'] as const;
export type Stick = (typeof STICKS)[number];

/** Changes of channels in their histories. */
export const CHANNEL_ACTIONS = ['created', 'changed', 'promoted', 'rolled_back', 'taken_back', 'deleted'] as const;
export type ChannelAction = (typeof CHANNEL_ACTIONS)[number];
