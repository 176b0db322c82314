import { hash } from 'node:crypto';
import { OPERATOR_KEY, OPERATOR_KEY_RULE, type OperatorKey } from '#core/ports/operator-key.ts';
import { type KeptSecretProps, keptSecret } from './kept-secret.ts';

/** Reads the operator's key, which is the text of a secret. Only its hash is cached. */
export const operatorKeyOnAws = (secret: KeptSecretProps): OperatorKey =>
  keptSecret(secret, (text) => {
    // The error does not contain the secret.
    if (!OPERATOR_KEY.test(text))
      throw new Error(`the secret ${secret.secretName} ${OPERATOR_KEY_RULE} (docs/billing.md)`);
    return hash('sha256', text);
  });
