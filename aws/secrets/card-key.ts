import type { CardKey } from '#core/ports/card-key.ts';
import { parseCardKey } from '#core/wires/a2a/card-key.ts';
import { type KeptSecretProps, keptSecret } from './kept-secret.ts';

/** Reads the key that signs cards, which is the text of a secret in PEM. */
export const cardKeyOnAws = (secret: KeptSecretProps): CardKey =>
  keptSecret(secret, (text) => parseCardKey(`the secret ${secret.secretName}`, text));
