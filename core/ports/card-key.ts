import type { KeyObject } from 'node:crypto';

/**
 * Returns the operator's private key for the cards of agents: ECDSA on the curve P-256. Throws an error that names the
 * setting if the host cannot read it.
 */
export type CardKey = () => Promise<KeyObject>;
