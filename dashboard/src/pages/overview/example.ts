/** The agent that the first page publishes: it needs no model, so it runs on every platform. */
export const EXAMPLE = 'hello';
