/**
 * Returns the SHA-256 hash of the operator's key in hex; `undefined` if the operator has set none. Throws if the host
 * cannot read it.
 */
export type OperatorKey = () => Promise<string | undefined>;

export const noOperatorKey: OperatorKey = async () => undefined;

/** Format of the key: too long to guess, and distinct from the keys of users and agents. */
export const OPERATOR_KEY = /^(?!sk_)[\x21-\x7e]{32,200}$/;
export const OPERATOR_KEY_RULE = 'must be 32 to 200 characters without spaces, and not begin with sk_';
