/** Names and sources of scores. They are parts of sort keys, which `#` divides. */
export const SCORE_WORD = /^[a-z][a-z0-9_.-]{0,63}$/;
export const SCORE_WORD_RULE = 'must be 1 to 64 of a-z, 0-9, _, . and -, and begin with a letter';
