/**
 * Words that stand at the place of a version in a path of the route table, and those that other names of versions have. A
 * test compares them with the route table.
 */
const RESERVED: ReadonlySet<string> = new Set([
  ...['latest', 'dev', 'mcp', 'a2a', 'ag-ui'],
  // Reserved for later routes.
  ...['openai', 'preview', 'channels', 'versions'],
]);

const FORM = /^[a-z][a-z0-9-]{0,31}$/;
const LIKE_A_VERSION = /^v\d*$/;

/** Rule of the names of channels, as the end of a sentence that begins with the name of the member. */
export const CHANNEL_NAME_RULE =
  'must be 1-32 lower-case letters, digits and hyphens, begin with a letter, and be none of latest, dev, mcp, a2a, ag-ui, v1, v2, ...';

/** Form of a version in a body: `v3`, `3`, or a name such as `latest` or that of a channel. Names are checked when they are looked up. */
export const VERSION_TEXT = /^(v?\d{1,9}|[a-z][a-z0-9-]{0,31})$/;
/** The same for a version that stays: no `latest`, which is what the absence of one means, and no `dev`. */
export const KEPT_VERSION_TEXT = /^(?!latest$|dev$)(v?[1-9]\d{0,8}|[a-z][a-z0-9-]{0,31})$/;
export const VERSION_TEXT_RULE = 'must be a version such as v3, or the name of a channel';

/** Whether a channel of an agent may have this name (`docs/interface/channels.md#names`). */
export const isChannelName = (text: string): boolean =>
  FORM.test(text) && !RESERVED.has(text) && !LIKE_A_VERSION.test(text);
