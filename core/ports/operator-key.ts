/**
 * The SHA-256 hash of the operator's key, in hex; `undefined` where the operator has set none. Throws if the host cannot read
 * it.
 */
export type OperatorKey = () => Promise<string | undefined>;

export const noOperatorKey: OperatorKey = async () => undefined;

/** Form of the key: long enough that it cannot be guessed, and never taken for the key of a user or an agent. */
export const OPERATOR_KEY = /^(?!sk_)[\x21-\x7e]{32,200}$/;
export const OPERATOR_KEY_RULE = 'must be 32 to 200 characters without spaces, and not begin with sk_';
