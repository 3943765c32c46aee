// Example sentences: each set has one word in several senses, grouped by sense. In the top layer of
// the model "english", any two occurrences of one sense are more similar than any two of different
// senses (tests/serve/test_explorer.py).

export const EXAMPLES = {
  bow: [
    ["She took a bow and left the stage.", "The actor took a bow after the show."],
    [
      "They hunted with a bow and poisoned arrows.",
      "The warriors were armed with a bow and arrows.",
    ],
    ["The captain stood at the bow of the ship.", "Waves broke over the bow of the boat."],
  ],
  bank: [
    [
      "The bank lent the company a million dollars.",
      "The bank raised its interest rates in June.",
      "The bank opened a branch in London.",
    ],
    [
      "They sat on the bank of the river.",
      "The village lies on the west bank of the Nile.",
      "Trees grow along the bank of the stream.",
    ],
  ],
  fair: [
    [
      "The workers asked for a fair wage.",
      "He did not get a fair trial.",
      "Everyone wants a fair share of the money.",
    ],
    [
      "The annual fair is held in the town square.",
      "The fair attracts thousands of visitors.",
      "The fair was held every year in August.",
    ],
  ],
  match: [
    [
      "He scored two goals in the match against Chelsea.",
      "The team won the match in extra time.",
      "They lost the match after a penalty.",
    ],
    [
      "The colors do not match the walls.",
      "The results match the predictions of the theory.",
      "His words did not match his actions.",
    ],
  ],
  play: [
    [
      "The children play in the garden every day.",
      "The boys play in the street after school.",
      "The team will play in the final on Sunday.",
    ],
    [
      "She wrote a play about the war.",
      "He wrote a play about his father.",
      "He directed a play about the king.",
    ],
  ],
};

export const textOf = (senses) => senses.flat().join("\n");
